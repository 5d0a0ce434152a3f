/// Messages in flight in one direction.
///
/// Like a connection, a link delivers in order, each message once, and loses messages only when it
/// breaks. A wild link loses, repeats and reorders messages at random.
struct SimulatedLink<Message> {
  private(set) var messages: [Message] = []
  let isUnreliable: Bool

  init(isUnreliable: Bool) { self.isUnreliable = isUnreliable }

  mutating func send(_ message: Message) { messages.append(message) }
  mutating func drop() { messages = [] }

  /// Returns the next message to arrive, or `nil` if it was lost.
  mutating func next(using random: inout some RandomNumberGenerator, faulty: Bool) -> Message? {
    guard isUnreliable else { return messages.isEmpty ? nil : messages.removeFirst() }
    guard !messages.isEmpty else { return nil }
    let index = Int.random(in: 0..<messages.count, using: &random)
    switch faulty ? Int.random(in: 0..<12, using: &random) : 11 {
    case 0:
      messages.remove(at: index)
      return nil
    case 1, 2: return messages[index]
    default: return messages.remove(at: index)
    }
  }
}
