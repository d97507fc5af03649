// Package model constructs and decodes the models that learners return: a kernel
// expansion ([NewExpansion]) or a linear model ([NewLinear]). A learner outside
// this module uses it for its Model method and for the decoder of its Spec. Its
// models can then be exported, compiled for prediction and so on, like those of the
// built-in learners.
//
// The API is stable, and later versions read stored models.
package model
