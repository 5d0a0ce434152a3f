/// What a machine sends through one of its ports.
protocol Outlet: AnyObject {
  /// Events sent while no pipe leads from the port.
  var discarded: UInt64 { get }
}

/// Leads a port of a machine into the pipes that the topology connects to it.
// Sends and fullness are asked for in steps, which are on the loop's thread alone.
final class PortOutlet<Event: MachineEvent>: PipeOutlet, Outlet, @unchecked Sendable {
  private let port: String
  private let pipes: [OutPipe]
  private let log: NodeLog
  private let codec = EventCodec<Event>()
  private(set) var discarded: UInt64 = 0

  init(port: String, pipes: [OutPipe], log: NodeLog) {
    self.port = port
    self.pipes = pipes
    self.log = log
  }

  var isFull: Bool { pipes.contains(where: \.isFull) }

  func enqueue(_ event: Event) {
    if pipes.isEmpty {
      discarded += 1
      if discarded == 1 {
        log.warning("port '\(port)': no pipe leads from it; what is sent there goes nowhere")
      }
    }
    for pipe in pipes { pipe.enqueue { try codec.encode(event, into: &$0) } }
  }
}
