/// Every verb, in the order of the help page.
package enum Verbs {
  package static let all: [any Verb] = [
    Init(), Check(), Test(), Run(), Up(), Submit(), Apply(), Down(), List(), Processes(), Status(),
    Pipe(),
    Steer.start,
    Steer.stop, Steer.restart, Kill(), Send(), Wait(), Logs(), Watch(), ShowScreen(), TraceRun(),
    Web(),
    Describe(), ShowGraph(), Why(), ShowJournal(),
    Letters(), Reset(), Config(), Export(), Agent(), Probe(), Schema(), Completion(), ShowVersion(),
    Help(),
  ]

  package static var descriptions: [VerbDescription] { all.map(\.description) }
}
