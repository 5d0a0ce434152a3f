import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// The shop of `topologies/shop.yaml`, with the payment service.
struct RunningShop {
  let topology: DetachedTopology
  let port: Int

  static let nodes = ["orders", "stock", "payments", "shipping", "checkout"]

  /// Starts the shop and the payment service.
  /// - Parameters:
  ///   - hold: How long a reservation lasts. Unit: milliseconds.
  ///   - failures: The fraction of the payment service's requests that fail.
  static func with(
    hold: Int = 3_600_000, failures: Double,
    _ body: (RunningShop, PaymentService) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      let service = try await PaymentService(with: tool, failures: failures)
      tool.environment["SHOP"] = "./shop"
      tool.environment["SHOP_HOLD"] = "\(hold)"
      tool.environment["SHOP_GATEWAY"] = "\(service.port)"
      tool.environment["SHOP_COUNTS"] = "counts.csv"
      tool.environment["PATH"] = CommandLineTool.products + ":/usr/bin:/bin"
      let text = try #require(FileSystem.text(of: PackagePath.root + "/topologies/shop.yaml"))
      let topology = try DetachedTopology(tool: tool, name: "shop", yaml: text)
      let shop = RunningShop(topology: topology, port: service.port)
      try shop.build("shop")
      try await topology.up()
      try await body(shop, service)
      try await topology.run("down")
    }
  }

  /// Puts a program at the path of the shop's program, as a new build does.
  func build(_ program: String) throws {
    try topology.tool.directory.write(
      "#!/bin/sh\nexec '\(CommandLineTool.products)/\(program)' \"$@\"\n", to: "shop", mode: 0o700)
  }

  /// Starts the payment service again, with the same ledger.
  func restartService(failures: Double) async throws -> PaymentService {
    try await PaymentService(with: topology.tool, failures: failures, port: port)
  }

  /// Places orders.
  func place(_ orders: [String], amount: Int = 25) async throws {
    let client = try topology.client()
    defer { client.close() }
    for order in orders { try await place(order, amount, client) }
  }

  private func place(_ order: String, _ amount: Int, _ client: TopologyClient) async throws {
    let outcome = try await client.send(
      "orders",
      json: ["place": ["order": .string(order), "amount": .integer(Int64(amount))]])
    guard case .accepted = outcome else { throw UnexpectedResult("order \(order): \(outcome)") }
  }

  /// Places orders one after the other until a closure returns. At most 100 orders are under way.
  /// - Returns: The orders.
  func placeOrders(_ prefix: String, during body: () async throws -> Void) async throws -> [String]
  {
    let client = try topology.client()
    defer { client.close() }
    let isOver = Locked(false)
    let load = Task {
      var orders: [String] = []
      while !isOver.withLock({ $0 }) {
        let state = try await client.directory(fresh: true)[node: "orders"]?.status?.state
        let shipped = Int(state?["shipped"]?.integer ?? 0)
        for _ in 0..<max(0, 100 - orders.count + shipped) where !isOver.withLock({ $0 }) {
          orders.append("\(prefix)-\(orders.count)")
          try await place(orders[orders.count - 1], 25, client)
        }
      }
      return orders
    }
    defer { isOver.withLock { $0 = true } }
    try await body()
    isOver.withLock { $0 = true }
    return try await load.value
  }

  /// Kills each process once. Kills the next process when the former one has been replaced.
  func killAll() async throws {
    for node in Self.nodes {
      var before: Int32?
      // A node that is being upgraded has no process for a moment.
      let isKilled: Bool? = try await poll(within: .seconds(60), of: topology.tool.directory) {
        before = try await topology.pids()[node]
        let killed = try await topology.tool.run("kill", node, within: .seconds(60))
        return killed.code == 0 ? true : nil
      }
      #expect(isKilled == true, "'\(node)' has no process")
      try await topology.await("'\(node)' runs again", within: .seconds(60)) {
        $0[node: node]?.isRunning == true && $0[node: node]?.pid != before
      }
    }
  }

  /// Waits until a node has this number of instances in each state.
  func expect(
    _ node: String, _ counts: [String: Int], at location: SourceLocation = #_sourceLocation
  ) async throws {
    let expected = JSONValue.object(counts.mapValues { .integer(Int64($0)) })
    let client = try topology.client()
    defer { client.close() }
    var last: JSONValue?
    let isReached: Bool? = try await poll(within: .seconds(60), of: topology.tool.directory) {
      last = try await client.directory(fresh: true)[node: node]?.status?.state
      return last == expected ? true : nil
    }
    #expect(isReached == true, "\(node): \(last?.text ?? "no state")", sourceLocation: location)
  }

  /// Expects that no pipe has lost an event, and that no event was refused unexpectedly.
  func expectNoDeadLetters(at location: SourceLocation = #_sourceLocation) async throws {
    for node in try await topology.directory().nodes {
      #expect(node.status?.deadLetters ?? 0 == 0, "\(node)", sourceLocation: location)
      #expect(node.status?.gaps ?? 0 == 0, "\(node)", sourceLocation: location)
    }
  }
}

@Suite(
  "The shop example", .timed,
  .enabled(if: PaymentService.isPossible, "skipped without /usr/bin/python3"))
struct ShopRunTests {
  @Test(
    "Each order is charged once, although the payment service fails and all processes are killed")
  func killed() async throws {
    try await RunningShop.with(failures: 0.5) { shop, first in
      var later: PaymentService?
      let orders = try await shop.placeOrders("k") {
        for _ in 0..<3 { try await shop.killAll() }
        try await first.kill()
        later = try await shop.restartService(failures: 0.5)
        try await shop.killAll()
      }
      let service = try #require(later)
      try await shop.expect("orders", ["shipped": orders.count])
      try await shop.expect("payments", ["settled": orders.count])
      try await shop.expect("stock", ["sold": orders.count])
      #expect(
        service.ledger.sorted { $0.order < $1.order }
          == orders.sorted().map { .init(kind: "charge", order: $0, amount: 25) })
      // The faults have occurred.
      let outputs = first.program.outputText + service.program.outputText
      #expect(outputs.contains(": busy\n"))
      #expect(outputs.contains(": done, but the answer is lost\n"))
      #expect(outputs.contains(": was done before"))
      try await shop.expectNoDeadLetters()
    }
  }

  @Test("If a reservation expires before the order is committed, the customer pays nothing")
  func expired() async throws {
    try await RunningShop.with(hold: 1, failures: 0.5) { shop, first in
      let orders = (0..<20).map { "e-\($0)" }
      try await first.kill()
      try await shop.place(orders)
      try await shop.expect("orders", ["cancelled": orders.count])
      try await shop.expect("stock", ["released": orders.count])
      let service = try await shop.restartService(failures: 0.5)
      let isOver: Bool? = try await poll(within: .seconds(60), of: shop.topology.tool.directory) {
        guard
          case .object(let counts)? = try await shop.topology.directory()[node: "payments"]?
            .status?.state
        else { return nil }
        let ended = ["refunded", "void"].compactMap { counts[$0]?.integer }.reduce(0, +)
        return Int(ended) == orders.count ? true : nil
      }
      #expect(isOver == true)
      let balance = Dictionary(grouping: service.ledger, by: \.order)
      for (order, entries) in balance {
        #expect(entries.map(\.kind) == ["charge", "refund"], "\(order)")
        #expect(Set(entries.map(\.amount)) == [25], "\(order)")
      }
      try await shop.expectNoDeadLetters()
    }
  }

  @Test("An order whose payment is declined is cancelled, and its goods are released")
  func declined() async throws {
    try await RunningShop.with(failures: 0) { shop, service in
      try await shop.place(["d"], amount: 1_001)
      try await shop.expect("orders", ["cancelled": 1])
      try await shop.expect("stock", ["released": 1])
      try await shop.expect("payments", ["declined": 1])
      #expect(service.ledger == [])
      try await shop.expectNoDeadLetters()
    }
  }

  @Test("After an upgrade under load and with kills, orders of version 1 are shipped by version 2")
  func upgrade() async throws {
    try await RunningShop.with(failures: 0.5) { shop, first in
      // Orders that wait for their payment while the shop is upgraded.
      try await first.kill()
      let early = (0..<10).map { "early-\($0)" }
      try await shop.place(early)
      try await shop.expect("orders", ["reserved": early.count])
      var later: PaymentService?
      let orders = try await shop.placeOrders("u") {
        try shop.build("shop-2")
        async let kills: Void = shop.killAll()
        // A kill may end a node that is being upgraded. 'apply' then undoes this node's upgrade.
        let isUpgraded: Bool? = try await poll(
          within: .seconds(60), of: shop.topology.tool.directory
        ) {
          let apply = try shop.topology.tool.start(["apply", "--timeout", "10m", "shop.yaml"])
          return try await shop.topology.tool.result(of: apply, within: .seconds(60)).code == 0
            ? true : nil
        }
        #expect(isUpgraded == true)
        try await kills
        later = try await shop.restartService(failures: 0.5)
      }
      let service = try #require(later)
      let all = early + orders
      try await shop.expect("orders", ["shipped": all.count])
      try await shop.expect("payments", ["settled": all.count])
      #expect(
        service.ledger.sorted { $0.order < $1.order }
          == all.sorted().map { .init(kind: "charge", order: $0, amount: 25) })
      let list = try await shop.topology.run(
        ["instances", "orders", "-o", "json"] + early)
      guard case .array(let instances) = try JSONValue(parsing: list.output.utf8) else {
        throw UnexpectedResult("\(list)")
      }
      #expect(instances.count == early.count)
      for instance in instances {
        #expect(instance["state"] == ["shipped": ["amount": 25, "points": 2]], "\(instance)")
      }
      try await shop.expectNoDeadLetters()
    }
  }

  @Test("The monitor writes the number of orders in each state as CSV")
  func counts() async throws {
    try await RunningShop.with(failures: 0) { shop, _ in
      try await shop.place(["c-1", "c-2"])
      try await shop.expect("orders", ["shipped": 2])
      let path = shop.topology.tool.directory.path + "/counts.csv"
      let isWritten: Bool? = try await poll(within: .seconds(60), of: shop.topology.tool.directory)
      {
        (FileSystem.text(of: path) ?? "").contains(",orders,shipped,2\n") ? true : nil
      }
      #expect(isWritten == true)
      #expect(FileSystem.text(of: path)?.hasPrefix("milliseconds,node,state,count\n") == true)
    }
  }

  @Test(
    "The HTTP front end places, shows and cancels orders (skipped without curl)",
    .enabled(if: FileSystem.exists("/usr/bin/curl")))
  func frontEnd() async throws {
    try await RunningShop.with(failures: 0) { shop, _ in
      let tool = shop.topology.tool
      let (program, port) = try await PaymentService.start(
        "front_end.py", ["--port", "0"], with: tool)
      /// Returns the status of the response, after its body.
      func request(_ path: String, _ options: String...) async throws -> String {
        let curl = try tool.start(
          program: "/usr/bin/curl",
          ["-s", "-w", "%{http_code}", "http://127.0.0.1:\(port)\(path)"] + options)
        return try await tool.end(of: curl, within: .seconds(60)).output
      }
      let placed = try await request("/orders", "-d", #"{"order": "h 1", "amount": 30}"#)
      #expect(placed.contains(#""outcome": "accepted""#) && placed.hasSuffix("\n201"), "\(placed)")
      #expect(
        try await request("/orders", "-d", #"{"order": "h-2", "amount": 30}"#).hasSuffix("201"))
      try await shop.expect("orders", ["shipped": 2])
      let shown = try await request("/orders/h-2")
      #expect(shown.contains(#""state": {"shipped": {"amount": 30}}"#), "\(shown)")
      let late = try await request("/orders/h-2", "-X", "DELETE")
      #expect(late.contains(#""reason": "ended""#) && late.hasSuffix("409"), "\(late)")
      for (path, body, status) in [
        ("/orders", #"{"order": "h-2", "amount": 30}"#, "409"),
        ("/orders", #"{"order": "h-3", "amount": 0}"#, "409"),
        ("/orders", #"{"order": "h-3", "amount": "many"}"#, "400"),
        ("/orders", #"{"order": "h-3"}"#, "400"), ("/orders", "[1]", "400"),
        ("/orders", "{", "400"), ("/other", #"{"order": "h-3", "amount": 1}"#, "404"),
      ] {
        let answer = try await request(path, "-d", body)
        #expect(answer.hasSuffix("\n" + status), "\(body): \(answer)")
      }
      for path in ["/orders/h-3", "/orders/-n", "/orders/", "/"] {
        let answer = try await request(path)
        #expect(answer.hasSuffix("\n404"), "\(path): \(answer)")
      }
      // The topology that this front end expects does not run.
      let (lonely, other) = try await PaymentService.start(
        "front_end.py", ["--port", "0", "--topology", "none"], with: tool)
      let curl = try tool.start(
        program: "/usr/bin/curl",
        ["-s", "-w", "%{http_code}", "http://127.0.0.1:\(other)/orders/h-2", "-X", "DELETE"])
      #expect(try await tool.end(of: curl, within: .seconds(60)).output.hasSuffix("503"))
      lonely.signal(.kill)
      program.signal(.kill)
    }
  }
}
