/// Rounds of asking every node for its status, so that a directory tells what holds now.
struct StatusSurvey {
  private struct Round {
    let number: UInt64
    var missing: Set<String>
    var askers: [Asker]
  }

  private var round: Round?
  /// Those who came during the round: its answers may be older than their question.
  private var late: [Asker] = []
  /// 0 is a heartbeat's, of no round.
  private var last: UInt64 = 0

  /// - Returns: The number of the round that begins, or `nil` where one is under way.
  mutating func join(_ asker: Asker, nodes: Set<String>) -> UInt64? {
    guard round == nil else {
      late.append(asker)
      return nil
    }
    return begin([asker], nodes)
  }

  /// - Returns: Whether all have answered now.
  mutating func answered(_ node: String, in number: UInt64) -> Bool {
    guard round?.number == number, round?.missing.remove(node) != nil else { return false }
    return round?.missing.isEmpty == true
  }

  /// Who has not answered in a round; nobody where that has ended.
  func missing(in number: UInt64) -> Set<String> {
    round.flatMap { $0.number == number ? $0.missing : nil } ?? []
  }

  /// Ends a round, whoever has answered until then.
  /// - Returns: Who is to be answered; nobody where the round had ended before.
  mutating func end(_ number: UInt64) -> [Asker] {
    guard let round, round.number == number else { return [] }
    self.round = nil
    return round.askers
  }

  /// Begins a round for those who came too late for the last one.
  /// - Returns: Its number, or `nil` where nobody did.
  mutating func beginForLate(nodes: Set<String>) -> UInt64? {
    guard round == nil, !late.isEmpty else { return nil }
    defer { late = [] }
    return begin(late, nodes)
  }

  private mutating func begin(_ askers: [Asker], _ nodes: Set<String>) -> UInt64 {
    last += 1
    round = Round(number: last, missing: nodes, askers: askers)
    return last
  }
}
