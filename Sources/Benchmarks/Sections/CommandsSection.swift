/// How long the verbs that concern all nodes take, as there are more.
struct CommandsSection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    try Programs.check()
    let sizes = setting.pick([10, 100, 500], quick: [10, 50])
    var before: (size: Int, times: RelayChain.Times)?
    for size in sizes {
      let times = try RelayChain(size).run(lists: 3)
      func add(_ verb: String, _ time: (RelayChain.Times) -> Double) {
        report.add(
          Figure(
            name: "\(verb), \(size) relays",
            value: .seconds(time(times)),
            baseline: before.map { .seconds(time($0.times) * Double(size) / Double($0.size)) },
            target: before.map { _ in .ratioAtMost(1.1) }))
      }
      add("up -d --wait") { $0.up }
      add("ps") { $0.ps.median }
      add("down") { $0.down }
      before = (size, times)
    }
    report.note(
      "baselines: what each node took with fewer of them, for as many: more than that is worse than linear"
    )
  }
}
