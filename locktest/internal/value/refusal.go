package value

import "fmt"

// Refusal is an error that the server answers with. Its codes are MongoDB's.
type Refusal struct {
	Code    int32
	Message string
	Labels  []string
}

func (r *Refusal) Error() string { return fmt.Sprintf("(%d) %s", r.Code, r.Message) }

// Codes of refusals.
const (
	BadValue        = 2
	FailedToParse   = 9
	TypeMismatch    = 14
	NamespaceExists = 48
	DollarPrefixed  = 52
	NotViable       = 28
	Conflicting     = 40
	CommandNotFound = 59
	ImmutableField  = 66
	NotSupported    = 115
	DuplicateKey    = 11000
)

// Refuse makes a refusal.
func Refuse(code int32, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Unsupported refuses what a MongoDB server may know, and this package doesn't.
func Unsupported(format string, args ...any) *Refusal {
	return Refuse(NotSupported, "locktest does not support "+format, args...)
}
