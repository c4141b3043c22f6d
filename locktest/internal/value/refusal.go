package value

import (
	"cmp"
	"fmt"
	"strings"
)

// Refusal is an error that the server answers with. Its codes are MongoDB's.
type Refusal struct {
	Code    int32
	Name    string // of the code; "" is MongoDB's
	Message string
	Labels  []string
	More    Document // what the reply has beside them
}

// CodeName is the name of the code.
func (r *Refusal) CodeName() string {
	return cmp.Or(r.Name, codeNames[r.Code], fmt.Sprintf("Location%d", r.Code))
}

var codeNames = map[int32]string{
	85: "IndexOptionsConflict", 86: "IndexKeySpecsConflict",
	BadValue: "BadValue", FailedToParse: "FailedToParse", TypeMismatch: "TypeMismatch", 15: "Overflow", NoUser: "AuthenticationFailed", InvalidLength: "InvalidLength", NotViable: "PathNotViable",
	Conflicting: "ConflictingUpdateOperators", DollarPrefixed: "DollarPrefixedFieldName", 53: "InvalidIdField", 54: "NotSingleValueField",
	56: "EmptyFieldName", CommandNotFound: "CommandNotFound", ImmutableField: "ImmutableField", CannotCreateIndex: "CannotCreateIndex", 72: "InvalidOptions", 73: "InvalidNamespace",
	NotSupported: "CommandNotSupported", WriteConflict: "WriteConflict", 20: "IllegalOperation", 48: "NamespaceExists", 50: "MaxTimeMSExpired",
	117: "ConflictingOperationInProgress", 225: "TransactionTooOld", 246: "SnapshotUnavailable", 251: "NoSuchTransaction", 256: "TransactionCommitted", 263: "OperationNotSupportedInTransaction",
	11602: "InterruptedDueToReplStateChange", NotAReplicaSet: "NotAReplicaSet", 171: "CannotIndexParallelArrays", 241: "ConversionFailure", DuplicateKey: "DuplicateKey",
}

func (r *Refusal) Error() string { return fmt.Sprintf("(%d) %s", r.Code, r.Message) }

// Codes of refusals.
const (
	BadValue          = 2
	FailedToParse     = 9
	TypeMismatch      = 14
	InvalidLength     = 16
	NoUser            = 18
	DollarPrefixed    = 52
	NotViable         = 28
	Conflicting       = 40
	CommandNotFound   = 59
	ImmutableField    = 66
	CannotCreateIndex = 67
	NotSupported      = 115
	WriteConflict     = 112
	NotAReplicaSet    = 123
	DuplicateKey      = 11000
	NotAllowed        = 224
	Required          = 40414
)

// Refuse makes a refusal.
func Refuse(code int32, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CheckName refuses a name that no part of a path in an expression or a projection can
// have. Those of references between documents are taken.
func CheckName(name string) error {
	switch {
	case name == "":
		return Refuse(15998, "FieldPath field names may not be empty strings.")
	case name[0] == '$' && name != "$id" && name != "$ref" && name != "$db":
		return Refuse(16410, "FieldPath field names may not start with '$': %q", name)
	case strings.Contains(name, "\x00"):
		return Refuse(16411, "FieldPath field names may not contain null bytes: %q", name)
	}
	return nil
}

// Unsupported refuses what a MongoDB server may know, and this package doesn't.
func Unsupported(format string, args ...any) *Refusal {
	return Refuse(NotSupported, "locktest does not support "+format, args...)
}
