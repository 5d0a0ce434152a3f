/// A pipe that rules send into: whether it has room.
struct SentPipe: Sendable {
  /// Which one it is: several rules may share it.
  let id: ObjectIdentifier
  let isFull: @Sendable () -> Bool
  /// Asks the pipe to say when it has room again; the result takes that back.
  let watchRoom: @Sendable (@escaping @Sendable () -> Void) -> @Sendable () -> Void

  init<Event>(_ pipe: EventPipe<Event>) {
    id = ObjectIdentifier(pipe)
    isFull = { pipe.isFull }
    watchRoom = { notify in
      let id = pipe.watchRoom(notify)
      return { pipe.unwatchRoom(id) }
    }
  }
}

extension Runtime {
  /// The pipes that its rules send into, each once.
  var sentPipes: [SentPipe] {
    var seen: Set<ObjectIdentifier> = []
    var pipes: [SentPipe] = []
    for sender in senders where seen.insert(sender.pipe.id).inserted { pipes.append(sender.pipe) }
    for sender in eventSenders where seen.insert(sender.pipe.id).inserted {
      pipes.append(sender.pipe)
    }
    return pipes
  }
}
