package prom_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/observe/prom"
)

func ExampleNew() {
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	metrics := prom.New()
	registry.MustRegister(metrics)

	c := pawl.New(memlock.New(), pawl.WithObserver(metrics))
	defer c.Close()
	lease, err := c.Mutex("orders/42").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock()

	families, err := registry.Gather() // promhttp.HandlerFor serves them
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "pawl_held" {
			fmt.Println(f.GetName(), f.Metric[0].GetGauge().GetValue())
		}
	}
	// Output: pawl_held 1
}

func ExampleWithClass() {
	// "orders/42" and "orders/43" are both of the class "orders".
	byPart := func(name string) string {
		class, _, _ := strings.Cut(name, "/")
		return class
	}
	registry := prometheus.NewRegistry()
	metrics := prom.New(prom.WithClass(byPart))
	registry.MustRegister(metrics)

	c := pawl.New(memlock.New(), pawl.WithObserver(metrics))
	defer c.Close()
	for _, name := range []string{"orders/42", "orders/43"} {
		if _, err := c.Mutex(name).Lock(context.Background()); err != nil {
			log.Fatal(err)
		}
	}

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "pawl_held" {
			m := f.Metric[0]
			fmt.Println(f.GetName(), m.Label[0].GetName()+"="+m.Label[0].GetValue(), m.GetGauge().GetValue())
		}
	}
	// Output: pawl_held class=orders 2
}
