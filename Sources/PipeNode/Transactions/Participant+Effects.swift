import PipeMachines
import PipeSupport
import PipeWire

// Events that effects of the node give, and that it takes only together with others.
extension Participant {
  /// Events of effects that are taken before the coordinator is told so.
  private static let settledTogether = 64

  /// Asks the coordinator for an event that an effect has given, until it is taken.
  func raise(_ event: RaisedEvent) {
    raised[event.number] = event
    send(event)
  }

  func send(_ event: RaisedEvent) {
    send(
      FrameHeader(
        .synchronize, flags: SynchronizeFlag.await.rawValue, sequence: event.number,
        number: event.journal),
      event.body.bytes)
  }

  func answered(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer
  ) throws(FrameError) {
    guard let event = raised[header.sequence] else { return }
    switch RequestReply.Code(rawValue: header.count) {
    case .committed:
      guard body.count == 8 else { throw .body(.reply) }
      let transaction = TransactionID(
        epoch: header.number,
        sequence: UInt64(littleEndian: body.loadUnaligned(as: UInt64.self)))
      raised[header.sequence] = nil
      settle(event)
      if transaction <= state.applied {
        machine.taken(event)
      } else {
        committed[transaction] = event
      }
    case .invalid:
      raised[header.sequence] = nil
      let json = (try? JSONValue(parsing: Array(body))) ?? .null
      log.warning(
        "an effect gave an event that cannot be taken: \(json["error"]?.string ?? "no reason given")"
      )
      event.reply.resume(false)
    // The coordinator ends, and the next one is asked again.
    case .synchronized: break
    case .moved, .refused, .busy, .unavailable, .done, .explained, nil: break
    }
  }

  /// Tells the coordinator now and then which answers are not waited for any more.
  private func settle(_ event: RaisedEvent) {
    takenCount += 1
    guard takenCount.isMultiple(of: Self.settledTogether) else { return }
    // Not counted: it belongs to no one event.
    services.send(
      FrameHeader(
        .synchronize, flags: SynchronizeFlag.settle.rawValue,
        sequence: raised.keys.min() ?? event.number, number: event.journal), [], peer)
  }

  /// Gives up what effects had raised that were cancelled since.
  func withdraw() {
    for event in raised.values where !machine.isRunning(effect: event.effect) {
      raised[event.number] = nil
      send(
        FrameHeader(
          .synchronize, flags: SynchronizeFlag.withdraw.rawValue, sequence: event.number,
          number: event.journal), [])
      event.reply.resume(false)
    }
  }
}

/// An event that an effect has given, and that its machine takes only together with others.
struct RaisedEvent {
  /// The effect's number in its engine.
  let effect: UInt64
  let place: EffectEventPlace
  let reply: EffectReply
  /// The same whenever the same effect gives its event again: it is then taken once.
  let number: UInt64
  let journal: UInt64
  let body: TransactionBody
}
