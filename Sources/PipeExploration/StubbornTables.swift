/// What a ``StubbornSet`` is made from.
final class StubbornTables {
  /// For each row of the compiled model a mask: the vectors and observations that its component has a part
  /// in, and that it permits.
  let permitted: FlatTable<UInt64>
  /// For each bit the components that have a part in it: `participants[starts[bit]..<starts[bit + 1]]`.
  let participants: FlatTable<Int>
  let starts: FlatTable<Int>

  /// - Parameter spoken: For each component the bits that it has a part in. Until they are filled in, all
  ///   of them are permitted.
  init(_ model: ExplorationModel, spoken: [[UInt64]], rowCounts: [Int]) {
    permitted = FlatTable(
      zip(spoken, rowCounts).flatMap { bits, count in
        (0..<count).flatMap { _ in [bits[0] & ~1] + bits.dropFirst() }
      })
    var participants: [Int] = []
    var starts = [0, 0]
    for sets in model.observations {
      participants += sets.keys.sorted()
      starts.append(participants.count)
    }
    for vector in model.vectors {
      participants += vector.roles.map(\.component)
      starts.append(participants.count)
    }
    self.participants = FlatTable(participants)
    self.starts = FlatTable(starts)
  }

  var byteCount: Int { 8 * permitted.count }
}
