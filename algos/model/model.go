// Package model makes the models that learners return, from plain numbers, and
// reads them back: [NewExpansion] the one of kernel learners. A learner outside
// this module uses it for its Model method and for the decoder of its Spec; what
// such models can do besides deciding, such as being exported or compiled for
// prediction, comes with them.
//
// The package is stable: models that were stored are read by later versions.
package model
