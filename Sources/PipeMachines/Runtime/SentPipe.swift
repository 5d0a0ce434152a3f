/// What room a pipe has.
enum PipeRoom: Sendable {
  /// A sender has to wait.
  case none
  /// There is some now; other senders may take it.
  case forNow
  /// There is some until this sender has sent: nobody else sends into it.
  case untilSent
}

/// A pipe that rules send into: whether it has room.
struct SentPipe: Sendable {
  /// Which one it is: several rules may share it.
  let id: ObjectIdentifier
  let room: @Sendable () -> PipeRoom
  /// Asks the pipe to say when it has room again; the result takes that back.
  let watchRoom: @Sendable (@escaping @Sendable () -> Void) -> @Sendable () -> Void

  init<Event>(_ pipe: EventPipe<Event>) {
    id = ObjectIdentifier(pipe)
    room = { pipe.room }
    watchRoom = { notify in
      let id = pipe.watchRoom(notify)
      return { pipe.unwatchRoom(id) }
    }
  }
}

/// The pipes that a machine sends into, each once, and which of them may have no room.
///
/// A step costs what the pipes cost that were sent into since the one before, and not what all of them do.
struct SentPipes {
  private let pipes: [SentPipe]
  /// The places of those that are asked before the next step.
  private var doubtful: [Int]
  private var isDoubtful: [Bool]

  init(_ pipes: [SentPipe]) {
    self.pipes = pipes
    doubtful = Array(pipes.indices)
    isDoubtful = Array(repeating: true, count: pipes.count)
  }

  var all: [SentPipe] { pipes }

  /// Whether none of them is full.
  mutating func haveRoom() -> Bool {
    var next = doubtful.count
    while next > 0 {
      next -= 1
      let place = doubtful[next]
      switch pipes[place].room() {
      case .none: return false
      case .forNow: break
      case .untilSent:
        isDoubtful[place] = false
        // Those behind it have been asked.
        doubtful.swapAt(next, doubtful.count - 1)
        doubtful.removeLast()
      }
    }
    return true
  }

  /// A rule has sent into this one, or may have.
  mutating func sent(into place: Int) {
    guard !isDoubtful[place] else { return }
    isDoubtful[place] = true
    doubtful.append(place)
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
