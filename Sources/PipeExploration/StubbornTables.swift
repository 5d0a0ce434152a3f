/// What a ``StubbornSet`` is made from.
final class StubbornTables {
  /// For each local state of all components a mask: the vectors and observations that its component has a
  /// part in, and that it permits.
  let permitted: FlatTable<UInt64>
  /// For each bit the components that have a part in it: `participants[starts[bit]..<starts[bit + 1]]`.
  let participants: FlatTable<Int>
  let starts: FlatTable<Int>

  init(_ model: ExplorationModel, rows: MaskRows, firstVectorBit: Int) {
    var permitted: [UInt64] = []
    for component in model.components.indices {
      let spoken = rows.spoken[component]
      for row in rows.permitted[component] {
        permitted += zip(row, spoken).map { $0 & $1 }
      }
    }
    self.permitted = FlatTable(permitted)
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
