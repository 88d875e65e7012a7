package limiter

// FieldError says which field of [Settings] or [ClientOptions] is wrong, and what would be right. It
// quotes no secret.
type FieldError struct {
	// Field is the field's name, such as MaxDelay. Several are joined by ", ".
	Field string

	// Value is what the field holds, as text; empty where that would not help. Of several Addresses it
	// is the number of the wrong one, from 1.
	Value string

	// Problem says what is wrong, and what to use instead.
	Problem string
}

// Error returns the problem behind the field's name.
func (e *FieldError) Error() string { return e.Of(e.Field) }

// Of returns the problem behind another name, for programs that call the field so.
func (e *FieldError) Of(name string) string {
	if e.Value != "" {
		name += " " + e.Value
	}
	return name + ": " + e.Problem
}
