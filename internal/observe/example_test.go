package observe_test

import (
	"context"
	"fmt"

	"github.com/doclock/doclock/internal/observe"
)

// An event is delivered by another goroutine.
func Example() {
	told := make(chan string)
	o := observe.New("shop.orders", []observe.Func{func(_ context.Context, e observe.Event) {
		told <- fmt.Sprintf("%s: %q in %s", e.Kind, e.Tag, e.Collection)
	}})
	o.Emit(context.Background(), observe.Event{Kind: observe.Granted, Tag: "write"}) // doesn't wait
	o.Emit(context.Background(), observe.Event{Kind: observe.Released, Tag: "write"})
	fmt.Println(<-told)
	fmt.Println(<-told)
	// Output:
	// granted: "write" in shop.orders
	// released: "write" in shop.orders
}
