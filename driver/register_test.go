package driver_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"slices"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

func opener(err error) driver.Opener {
	return func(context.Context, *url.URL) (driver.Engine, error) { return nil, err }
}

// fresh returns a scheme that no earlier run of these tests has registered:
// registrations stay.
func fresh(prefix string) string { return prefix + rand.Text() }

func TestARegisteredSchemeIsFound(t *testing.T) {
	mine := errors.New("mine")
	zz, aa := fresh("zz"), fresh("aa")
	driver.Register(zz, opener(mine))
	driver.Register(aa, opener(nil))
	o, ok := driver.Lookup(zz)
	if !ok {
		t.Fatal("not found")
	}
	if _, err := o(t.Context(), &url.URL{Scheme: zz}); !errors.Is(err, mine) {
		t.Errorf("another opener was found: %v", err)
	}
	if _, ok := driver.Lookup(fresh("zz")); ok {
		t.Error("a scheme that nobody registered is found")
	}
	all := driver.Schemes()
	if !slices.IsSorted(all) || !slices.Contains(all, aa) || !slices.Contains(all, zz) {
		t.Errorf("Schemes() = %q", all)
	}
}

func TestRegisterPanicsOnMisuse(t *testing.T) {
	taken := fresh("taken")
	driver.Register(taken, opener(nil))
	for about, misuse := range map[string]func(){
		"a taken scheme": func() { driver.Register(taken, opener(nil)) },
		"no scheme":      func() { driver.Register("", opener(nil)) },
		"no opener":      func() { driver.Register(fresh("zz"), nil) },
	} {
		t.Run(about, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("Register did not panic")
				}
			}()
			misuse()
		})
	}
}

func TestTheTextOfABadURLIsTheReasonAlone(t *testing.T) {
	err := driver.BadURL("no path in %q", "x:")
	if !errors.Is(err, driver.ErrURL) || err.Error() != `no path in "x:"` {
		t.Errorf("%v", err)
	}
}
