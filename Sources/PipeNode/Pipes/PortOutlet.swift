import PipeMachines

/// What leads a port somewhere, whatever its events are.
protocol AnyPortOutlet: AnyObject {
  /// Where the port leads.
  var pipes: [OutPipe] { get set }
  /// Events sent while no pipe leads from the port.
  var discarded: UInt64 { get }
}

/// Leads a port of a machine into the pipes that the topology connects to it.
// Sends and fullness are asked for in steps, which are on the loop's thread alone.
final class PortOutlet<Event: MachineEvent>: PipeOutlet, AnyPortOutlet, @unchecked Sendable {
  private let port: String
  @exclusivity(unchecked)
  var pipes: [OutPipe]
  private let log: NodeLog
  private let encode: @Sendable (Event, inout [UInt8]) throws -> Void
  // Exclusivity is not checked at run time for what each event touches: the loop's thread alone does.
  @exclusivity(unchecked)
  private(set) var discarded: UInt64 = 0

  init(_ port: EventPipe<Event>, pipes: [OutPipe], log: NodeLog) {
    self.port = port.name ?? ""
    if let encode = port.encode {
      self.encode = encode
    } else {
      // Used by the host's one thread.
      nonisolated(unsafe) let codec = EventCodec<Event>(isSynthesized: Event._isSynthesizedCodable)
      encode = { try codec.encode($0, into: &$1) }
    }
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
    for pipe in pipes { pipe.enqueue { try encode(event, &$0) } }
  }
}
