// Package model makes the models that learners return, from plain numbers, and
// reads them back: [NewExpansion] that of a kernel learner, [NewLinear] that of a
// linear one. A learner outside this module uses it for its Model method and for
// the decoder of its Spec; what such models can do besides deciding, such as
// being exported or compiled for prediction, comes with them.
//
// The API is stable, and models that were stored are read by later versions.
package model
