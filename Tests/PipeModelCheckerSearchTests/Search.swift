import PipeModelChecker
import Testing

/// A completed search of automata.
struct Search: ~Copyable {
  /// One of the kinds of search that must agree.
  struct SearchMode: CustomTestStringConvertible, Sendable {
    var hasFingerprints = false
    var threads = 1
    /// The bits used of each word. With few bits, small states are stored like large ones.
    var wordBits = 64
    var usesReduction = false
    /// The number of observations that hold nowhere, so that the bits of vectors span several
    /// words.
    var padding = 0

    var testDescription: String {
      [
        hasFingerprints ? "fingerprints" : "exact", "threads: \(threads)", "bits: \(wordBits)",
        usesReduction ? "reduced" : nil, padding > 0 ? "padding: \(padding)" : nil,
      ].compactMap { $0 }.joined(separator: ", ")
    }

    var options: ExplorationOptions {
      var options = ExplorationOptions()
      if hasFingerprints { options.storage = .fingerprints(seed: 1) }
      options.threadCount = threads
      options.wordBits = wordBits
      options.usesReduction = usesReduction
      options.maximumKeptStateCount = .max
      // No model is larger, so endless growth is found soon.
      options.stateLimit = 20_000
      options.localStateLimit = 1000
      return options
    }
  }

  static let modes =
    [false, true].flatMap { hasFingerprints in
      [1, 2].flatMap { threads in
        [64, 7].map {
          SearchMode(hasFingerprints: hasFingerprints, threads: threads, wordBits: $0)
        }
      }
    } + [
      SearchMode(padding: 60), SearchMode(threads: 2, wordBits: 7, padding: 130),
      SearchMode(wordBits: 3),
    ]

  static let reducedModes = [
    SearchMode(usesReduction: true), SearchMode(threads: 2, usesReduction: true),
    SearchMode(wordBits: 7, usesReduction: true, padding: 60),
  ]

  private let exploration: Exploration
  private let labels: [String]
  let result: ExplorationResult

  init(
    _ automata: Automata, _ mode: SearchMode,
    _ questions: ExplorationQuestions = ExplorationQuestions(),
    observations: [[Int: Set<Int>]] = []
  ) async throws {
    var (model, labels) = try automata.model()
    for observation in observations { _ = try model.addObservation(observation) }
    for _ in 0..<mode.padding { _ = try model.addObservation([0: []]) }
    var exploration = Exploration(model, questions, options: mode.options)
    result = await exploration.run()
    self.exploration = exploration
    self.labels = labels
  }

  func path(to state: StateReference) -> (labels: [String], states: [[Int]]) {
    let path = exploration.path(to: state)
    return (path.vectors.map { labels[$0] }, path.states)
  }
}
