/// What the lines start with that a node writes about itself, by which others know them.
package enum NodeLogPrefix {
  package static let note = "piperuntime: "
  package static let warning = "piperuntime: warning: "
  package static let error = "piperuntime: error: "

  /// What comes before those where they tell of a lodger, another node in the same process.
  package static func ofLodger(_ node: String) -> String { "[\(node)] " }
}
