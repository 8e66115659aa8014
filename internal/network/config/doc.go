// Package config parses and judges the configurations of networks with VFs. Parse reads the
// configuration of one of Culvert's plugins into a Config, as a runtime hands it over.
// ParseDefinition and Own read a NetworkAttachmentDefinition, Judge says whether nodes can use it,
// and ReadFile reads a file of the runtime's folder.
//
// culvertd, culvert-controller and the commands of a person call it, so that all of them accept and
// refuse the same networks. It knows neither the node nor the ledger. Package netconf has the parts
// of a configuration that all plugins share.
package config
