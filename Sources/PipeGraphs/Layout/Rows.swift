/// Puts things into rows so that most lines between them lead down, and few cross.
struct Rows {
  /// The things, by number.
  private(set) var rows: [[Int]] = []
  private let count: Int
  private let lines: [(source: Int, target: Int)]
  private var targets: [[Int]]
  private var sources: [[Int]]

  /// The times that the rows are put in order. More make little better.
  private static let sweeps = 4

  /// - Parameters:
  ///   - count: Of the things.
  ///   - lines: Between them, none from a thing to itself.
  ///   - first: What is to be at the top.
  init(_ count: Int, lines: [(source: Int, target: Int)], first: [Int]) {
    self.count = count
    self.lines = lines
    targets = Array(repeating: [], count: count)
    sources = targets
    for line in lines {
      targets[line.source].append(line.target)
      sources[line.target].append(line.source)
    }
    rank(first)
    for sweep in 0..<Self.sweeps { order(down: sweep % 2 == 0) }
  }

  /// Gives each thing the row after all those from which lines lead to it, those that close a circle aside.
  private mutating func rank(_ first: [Int]) {
    let lonely = (0..<count).filter { targets[$0].isEmpty && sources[$0].isEmpty }
    let begin = first + (0..<count).filter { sources[$0].isEmpty } + (0..<count)
    var isOpen = Array(repeating: false, count: count)
    var isDone = isOpen
    var next = Array(repeating: 0, count: count)
    var finished: [Int] = []
    var closing: Set<[Int]> = []
    for root in begin where !isDone[root] {
      var path = [root]
      isOpen[root] = true
      while let thing = path.last {
        guard next[thing] < targets[thing].count else {
          isOpen[thing] = false
          isDone[thing] = true
          finished.append(thing)
          path.removeLast()
          continue
        }
        let target = targets[thing][next[thing]]
        next[thing] += 1
        if isOpen[target] {
          closing.insert([thing, target])
        } else if !isDone[target] {
          isOpen[target] = true
          path.append(target)
        }
      }
    }
    var ranks = Array(repeating: 0, count: count)
    for thing in finished.reversed() {
      for target in targets[thing] where !closing.contains([thing, target]) {
        ranks[target] = max(ranks[target], ranks[thing] + 1)
      }
    }
    let isLonely = Set(lonely)
    rows = Array(repeating: [], count: (ranks.max() ?? -1) + 1)
    for thing in finished.reversed() where !isLonely.contains(thing) {
      rows[ranks[thing]].append(thing)
    }
    rows = rows.filter { !$0.isEmpty }
    // What nothing leads to or from comes last.
    if !lonely.isEmpty { rows.append(lonely) }
  }

  /// Puts each thing of a row where its neighbours in other rows are, on average.
  private mutating func order(down: Bool) {
    var places = Array(repeating: 0.0, count: count)
    func note(_ row: [Int]) {
      for (place, thing) in row.enumerated() {
        places[thing] = (Double(place) + 0.5) / Double(row.count)
      }
    }
    rows.forEach(note)
    for index in down ? Array(rows.indices) : rows.indices.reversed() {
      let keyed = rows[index].enumerated().map { place, thing -> (Double, Int, Int) in
        let neighbours = (down ? sources : targets)[thing]
        guard !neighbours.isEmpty else { return (places[thing], place, thing) }
        return (neighbours.reduce(0) { $0 + places[$1] } / Double(neighbours.count), place, thing)
      }
      rows[index] = keyed.sorted { ($0.0, $0.1) < ($1.0, $1.1) }.map(\.2)
      note(rows[index])
    }
  }
}
