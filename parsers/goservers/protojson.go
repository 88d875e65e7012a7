package main

import (
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// requestFile has the message that a service takes. The fields of proto2 say whether they were given.
const requestFile = `
name: "request.proto" syntax: "proto2"
message_type {
	name: "Request"
	field { name: "model" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
	field { name: "user_id" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
	field { name: "user" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".User" }
}
message_type {
	name: "User"
	field { name: "email" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
}`

// requestMessage describes the message Request.
var requestMessage = func() protoreflect.MessageDescriptor {
	var file descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(requestFile), &file); err != nil {
		panic(err)
	}
	made, err := protodesc.NewFile(&file, nil)
	if err != nil {
		panic(err)
	}
	return made.Messages().ByName("Request")
}()

// readProtoJSON reads with the options that grpc-gateway and Connect have.
func readProtoJSON(body []byte, asked string) (string, error) {
	message := dynamicpb.NewMessage(requestMessage)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, message); err != nil {
		return "", err
	}
	var within protoreflect.Message = message
	names := strings.Split(asked, ".")
	for _, name := range names[:len(names)-1] {
		field := within.Descriptor().Fields().ByTextName(name)
		if field == nil || !within.Has(field) {
			return "none", nil
		}
		within = within.Get(field).Message()
	}
	fields, last := within.Descriptor().Fields(), names[len(names)-1]
	field := fields.ByTextName(last)
	if field == nil {
		field = fields.ByJSONName(last)
	}
	if field == nil || !within.Has(field) {
		return "none", nil
	}
	return answer(within.Get(field).Interface()), nil
}
