import PipeWire

/// Tells the steps of composites to who asks for them.
final class ToldCompositeSteps {
  /// What was shown of one last.
  private final class Last {
    var version: UInt64
    /// As JSON.
    var state: [UInt8]

    init(_ entry: FeedEntry) { (version, state) = (entry.version, entry.state) }
  }

  private let feed: Feed
  private var composites: [String: (last: Last, told: ToldSequence)] = [:]

  init(to feed: Feed) { self.feed = feed }

  /// A composite shows another state.
  func take(_ entry: FeedEntry) {
    let name = entry.node ?? feed.node
    let known = composites[name]
    let told = known?.told ?? begin(name, entry)
    // The first one is shown, and is no step.
    guard entry.version > 0 else { return }
    defer {
      composites[name]?.last.version = entry.version
      composites[name]?.last.state = entry.state
    }
    guard told.begin() else { return }
    var body = feed.head(of: name, version: entry.version, place: entry.version)
    body.add("time", entry.time)
    body.add("cause", text: entry.cause)
    // What was shown while nobody asked is not known any more.
    if let last = known?.last, last.version + 1 == entry.version {
      body.add("from", json: last.state)
    }
    body.add("state", json: entry.state)
    if let transaction = entry.transaction { body.add("transaction", text: "\(transaction)") }
    told.tell(entry.version, body)
  }

  private func begin(_ name: String, _ entry: FeedEntry) -> ToldSequence {
    let last = Last(entry)
    let told = ToldSequence(.step, about: name, to: feed) { [unowned feed] skipped in
      var body = feed.head(of: name, version: last.version, place: last.version)
      body.add("skipped", skipped)
      return (last.version, body)
    }
    composites[name] = (last, told)
    return told
  }
}
