import NumberMachines
import PipeRuntime

/// The machines for end-to-end tests that the examples do not provide.
@main
struct TestNodes: NodeProgram {
  static let machines: [any Machine.Type] = [
    Source.self, Sink.self, Gate.self, Button.self, Fragile.self, Blob.self, Clerk.self, Party.self,
    Hoarder.self, Stuntman.self, Automaton.self, Moody.self, Wheel.self, Fickle.self, Lamp.self,
    Rambler.self, Listener.self,
    ModelMachine<Whistler>.self,
    Turner.self, Ringer.self, Waverer.self, Confidant.self,
    ModelMachine<Wobbler>.self, ModelMachine<Ripener>.self, ModelMachine<Heater>.self,
    Thermostat.self,
    ModelMachine<Dancer>.self,
    WallflowerNode.self, Chaperone.self, Beacon.self, Scroll.self,
    Caller.self, Visitor.self, Doorplate.self,
    NumberSource.self, NumberRelay.self, NumberFilter.self, NumberWorker.self, NumberGate.self,
    NumberSink.self, NumberMember.self, ModelMachine<NumberModel>.self,
  ]
  static let monitors: [any Monitor.Type] = [Census.self, Alarm.self]
  static let composites: [any CompositeState.Type] = [PairState.self]
  static let views: [any TerminalView.Type] = [
    ButtonView.self, FragileView.self, TurnerView.self,
  ]
}
