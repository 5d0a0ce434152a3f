/// What the lines start with that a node writes about itself, by which others know them.
package enum NodeLogPrefix {
  package static let note = "piperuntime: "
  package static let warning = "piperuntime: warning: "
  package static let error = "piperuntime: error: "
}
