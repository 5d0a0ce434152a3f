import PipeSupport
import PipeWire

/// Tells the events that go into a pipe to who asks for them.
final class PipeTap {
  private let node: String
  private let pipe: String
  private let stream: UInt64
  private let told: ToldSequence

  init(_ pipe: OutPipe, to feed: Feed) {
    let (node, name, stream) = (feed.node, pipe.name, pipe.state.stream)
    self.node = node
    self.pipe = name
    self.stream = stream
    told = ToldSequence(.tap, about: name, to: feed) { [unowned pipe] skipped in
      var body = Self.body(node, name, stream, pipe.state.queued)
      body.add("skipped", skipped)
      return (pipe.state.queued, body)
    }
  }

  func take(_ number: UInt64, _ event: ArraySlice<UInt8>) {
    guard told.begin() else { return }
    var body = Self.body(node, pipe, stream, number)
    body.add("time", WallClock.nanoseconds)
    body.add("event", json: event)
    told.tell(number, body)
  }

  private static func body(
    _ node: String, _ pipe: String, _ stream: UInt64, _ number: UInt64
  ) -> FeedBody {
    var body = FeedBody()
    body.add("node", text: node)
    body.add("pipe", text: pipe)
    body.add("stream", stream)
    body.add("number", number)
    return body
  }
}
