/// What becomes of the rate, and of what an event takes of the processors, as there are more nodes.
struct GrowthSection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let sizes = setting.pick([2, 10, 50, 100], quick: [2, 10])
    let duration = setting.pick(Duration.seconds(1.5), quick: .seconds(0.5))
    for shape in Crowd.Shape.allCases {
      var first: Crowd?
      for size in sizes {
        let crowd = try Crowd(shape, size, for: duration)
        let name = "\(shape.rawValue), \(size) nodes"
        report.add(
          Figure(
            name: "\(name): events a second of all", value: .perSecond(crowd.rate),
            baseline: first.map { .perSecond($0.rate) }))
        report.add(
          Figure(
            name: "\(name): processor time of an event", value: .seconds(crowd.time),
            baseline: first.map { .seconds($0.time) }))
        report.add(
          Figure(
            name: "\(name): voluntary switches of an event", value: .count(crowd.switches),
            baseline: first.map { .count($0.switches) }))
        if first == nil { first = crowd }
      }
    }
    report.note(
      "baselines: the same shape with \(sizes[0]) nodes. Each event is a step that sends one on; there are"
    )
    report.note(
      "16 for each node, without payload and without journals. The middle of the star waits until it has one of"
    )
    report.note("each other node, and sends one to each; of random pipes three lead from each node")
  }
}
