package sqllock_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-go/pawl/sqllock"
	"github.com/pawl-go/pawl/sqllock/sqlite"
)

func ExampleOnceTx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "shop.db")
	engine, err := sqlite.Open(ctx, file) // or the Records of a client
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	db, err := sql.Open("sqlite3", "file:"+file)
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE sales (amount INTEGER)"); err != nil {
		panic(err)
	}

	sell := func(order string, amount int) (string, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return "", err
		}
		defer tx.Rollback()
		receipt, err := sqllock.OnceTx(ctx, tx, engine, order, func(ctx context.Context) (string, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO sales (amount) VALUES (?)", amount)
			return fmt.Sprintf("%s: %d paid", order, amount), err
		}, sqllock.WithPayload([]byte{byte(amount)}))
		if err != nil {
			return "", err
		}
		return receipt, tx.Commit()
	}
	fmt.Println(sell("order/42", 12))
	fmt.Println(sell("order/42", 12)) // the client has heard nothing, and asks again
	fmt.Println(sell("order/42", 13))
	var n int
	if err := db.QueryRow("SELECT count(*) FROM sales").Scan(&n); err != nil {
		panic(err)
	}
	fmt.Println(n, "sale")
	// Output:
	// order/42: 12 paid <nil>
	// order/42: 12 paid <nil>
	//  once "order/42": key was used with another payload
	// 1 sale
}
