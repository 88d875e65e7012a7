package main

// corpus returns all samples. Their names differ.
func corpus() (all []sample) {
	for _, group := range [][]sample{
		fieldNames(), fieldValues(), urlencodedBodies(), multipartHeads(), multipartBodies(),
		documentNames(), documentValues(), documentBodies(), contentTypes(), queries(),
	} {
		all = append(all, group...)
	}
	return all
}
