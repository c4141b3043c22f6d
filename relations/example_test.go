package relations_test

import (
	"encoding/json"
	"fmt"

	"github.com/doclock/doclock/relations"
)

// A first draft of rules for a document that is read, written, and reported on.
// The checks show an omission: a "write" must respect a "report".
func Example() {
	rules := relations.Rules{
		"read":   {"write": {Kind: relations.Cooperative}},
		"write":  {"read": {Kind: relations.Assertive}, "write": {Kind: relations.Assertive}},
		"report": {"write": {Kind: relations.Cooperative}},
	}
	if err := rules.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("rules")
	fmt.Print(rules.Matrix())
	for _, a := range rules.Asymmetries() {
		fmt.Println(a)
	}
	for _, s := range rules.Starvations() {
		fmt.Println(s)
	}
	// Output:
	// rules
	//           read         report    write
	// read      -            -         cooperative ∞
	// report    -            -         cooperative ∞
	// write     assertive    -         assertive
	// "report" respects "write", but "write" ignores "report": a held "report" does not keep "write" out
	// "read" can be refused for ever: each time it asks, another "write" may be there
	// "report" can be refused for ever: each time it asks, another "write" may be there
}

func ExampleRules_Validate() {
	rules := relations.Rules{
		"read":  {"write": {Kind: relations.Cooperative}},
		"write": {"raed": {Kind: relations.Assertive}, "write": {Kind: relations.Assertive, Allow: -1}},
	}
	fmt.Println(rules.Validate())
	// Output:
	// relations: invalid rules: tag "write": assertive to "raed", which is not a tag of the rules (tags: read, write); tag "write": assertive to "write" with allow -1, which is negative (0 or more; n at a time is allow n-1, and n is at least 1)
}

func ExampleRules_MarshalJSON() {
	text, err := json.Marshal(relations.Semaphore(3))
	fmt.Println(string(text), err)
	// Output:
	// {"slot":{"assertive":[{"tag":"slot","allow":2}]}} <nil>
}

func ExampleRules_UnmarshalJSON() {
	var rules relations.Rules
	err := json.Unmarshal([]byte(`{
		"read":  {"cooperative": ["write"]},
		"write": {"cooperative": ["write"], "assertive": ["read"]}
	}`), &rules)
	fmt.Println(rules["write"]["read"], err)
	// Output:
	// assertive <nil>
}
