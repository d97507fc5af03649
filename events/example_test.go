package events_test

import (
	"fmt"

	"github.com/streamsvm/streamsvm/events"
)

// A schema is inferred from the first events, and encodes all that follow.
func Example() {
	event := func(amount float64, country string) []events.NamedCell {
		return []events.NamedCell{
			{Name: "amount", Cell: events.Cell{Kind: events.Number, Num: amount}},
			{Name: "country", Cell: events.Cell{Kind: events.Text, Text: []byte(country)}},
		}
	}
	schema, err := events.Infer([][]events.NamedCell{event(10, "DE"), event(30, "FR"), event(20, "DE")}, events.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(schema.Features())

	var row events.Row
	row.Reset(len(schema.Fields))
	for i, field := range event(25, "IT") {
		row.Cells[i] = field.Cell // the fields are in the order of the schema
	}
	x, err := schema.Encode(&row, nil)
	fmt.Println(x.Val, row.Issues[0].Kind == events.Unknown, err)
	// Output:
	// [amount country=DE country=FR country other]
	// [25 0 0 0.70710677] true <nil>
}
