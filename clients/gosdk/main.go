// Command gosdk calls an API with an SDK.
package main

func main() {}
