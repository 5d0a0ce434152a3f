import PipeMachines
import PipeTransport
import PipeWire

/// Takes what comes over the connections to participants.
protocol CoordinatorLinksOwner: AnyObject {
  func received(_ message: ParticipantMessage, from participant: String)
  /// A participant takes part; with `nil`, it is not connected any more.
  func changed(_ join: ParticipantJoin?, of participant: String)
  /// An effect of a participant asks for something.
  func take(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, of participant: String?,
    reply: @escaping Reply)
}

/// A coordinator's connections to its participants: those to other processes by one socket.
final class CoordinatorLinks {
  private(set) weak var owner: (any CoordinatorLinksOwner)?
  private let loop: PollLoop
  /// One for each context that participants are in.
  @exclusivity(unchecked)
  private var routers: [ConnectingRouter] = []
  /// By the number of the participant, which the routers know it by.
  // Exclusivity is not checked at run time for what each event touches: the loop's thread alone does.
  @exclusivity(unchecked)
  private var links: [CoordinatorLink] = []
  @exclusivity(unchecked)
  private var numbers: [String: Int] = [:]
  /// Those with replies that go out when the batch is done.
  @exclusivity(unchecked)
  private var withReplies: [CoordinatorLink] = []
  @exclusivity(unchecked)
  private var isInBatch = false

  /// How often a participant that has said nothing is asked for an answer.
  private static let probeInterval: Duration = .seconds(5)

  init(
    to components: [CoordinatorPlan.Component], of coordinator: String, journal: UInt64?,
    services: NodeServices,
    log: NodeLog, owner: any CoordinatorLinksOwner
  ) throws(TransportError) {
    self.owner = owner
    loop = services.loop
    let name = WireName.coordinator(coordinator)
    for component in components {
      let host = services.host.flatMap { $0.name == component.name ? $0 : nil }
      let link = CoordinatorLink(
        to: component.name, number: links.count, at: services.inbox(of: component),
        isLocal: host != nil, through: try router(in: host?.context ?? services.context, as: name),
        as: name, journal: journal, among: self, loop: loop, log: log)
      numbers[component.name] = links.count
      links.append(link)
    }
    for link in links { try link.connect() }
    probeLater()
    services.neighbours?.tell(self)
  }

  /// The one in this context.
  private func router(
    in context: Context, as name: String
  ) throws(TransportError) -> ConnectingRouter {
    if let known = routers.first(where: { $0.context === context }) { return known }
    let router = try ConnectingRouter(as: name, in: context)
    let place = routers.count
    routers.append(router)
    loop.add(router.socket, for: self) { $0.read(from: place) }
    loop.add(router.monitorSocket, for: self) { $0.readConnections(of: place) }
    return router
  }

  private func read(from router: Int) {
    while routers.indices.contains(router),
      routers[router].receive({ number, bytes in links[number].received(bytes) })
    {}
  }

  private func readConnections(of router: Int) {
    guard routers.indices.contains(router) else { return }
    routers[router].readConnections { number, event in links[number].told(event) }
  }

  private func probeLater() {
    loop.schedule(after: Self.probeInterval, for: self) { links in
      guard !links.links.isEmpty else { return }
      for link in links.links { link.probe() }
      links.probeLater()
    }
  }

  func send(_ message: CoordinatorMessage, to participant: String) {
    guard let number = numbers[participant] else { return }
    links[number].send(message)
  }

  func answer(_ reply: RequestReply, to request: UInt64, over link: CoordinatorLink) {
    link.append(reply, to: request)
    if isInBatch { withReplies.append(link) } else { link.flush() }
  }

  /// Lets replies go out together with the messages of a batch, or at its end.
  func batch(_ body: () -> Void) {
    isInBatch = true
    body()
    isInBatch = false
    for link in withReplies { link.flush() }
    withReplies.removeAll(keepingCapacity: true)
  }

  /// Cuts connections, as a failing network would.
  /// - Parameter participant: To whom; `nil` for all.
  func cut(to participant: String?) {
    for link in links where participant == nil || link.participant == participant { link.cut() }
  }

  func close() {
    for router in routers { router.close(linger: 300) }
    (routers, links, numbers) = ([], [], [:])
  }

  var garbage: UInt64 { links.reduce(0) { $0 + $1.garbage } }

  /// The messages of all.
  var messages: NodeStatus.Messages {
    links.reduce(into: NodeStatus.Messages()) { sum, link in
      sum.sent += link.messages.sent
      sum.received += link.messages.received
    }
  }
}

extension CoordinatorLinks: TalksWithPeers {
  func part(from peer: String, at places: PeerPlaces) {
    if let number = numbers[peer] { links[number].part() }
  }

  func meet(_ peer: String, at places: PeerPlaces) {
    if let number = numbers[peer] { links[number].meet(at: places.inbox) }
  }
}
