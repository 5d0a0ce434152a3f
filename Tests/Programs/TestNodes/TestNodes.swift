import NumberMachines
import PipeRuntime

/// The machines for end-to-end tests, in addition to the machines of the examples.
@main
struct TestNodes: NodeProgram {
  static let machines: [any Machine.Type] =
    ParcelVersion.machines + [
      Source.self, Sink.self, Gate.self, Button.self, Fragile.self, Blob.self, Clerk.self,
      Party.self,
      Hoarder.self, Stuntman.self, Automaton.self, KeyedAutomaton.self, Moody.self, Wheel.self,
      Fickle.self, Lamp.self,
      Rambler.self, Listener.self,
      ModelMachine<Whistler>.self,
      Turner.self, Ringer.self, Waverer.self, Confidant.self,
      ModelMachine<Wobbler>.self, ModelMachine<Ripener>.self, ModelMachine<Heater>.self,
      Thermostat.self,
      ModelMachine<Dancer>.self,
      WallflowerNode.self, Chaperone.self, Beacon.self, Scroll.self,
      Caller.self, Visitor.self, Guest.self, Herald.self, Doorplate.self, Offer.self,
      Reservation.self, Oven.self,
      TableBoiler.self, SlowBoiler.self, FunctionBoiler.self, FeatureBoiler.self,
      ModelMachine<ModelBoiler>.self,
      NumberSource.self, NumberRelay.self, NumberFilter.self, NumberWorker.self, NumberGate.self,
      NumberSink.self, NumberMember.self, ModelMachine<NumberModel>.self,
    ]
  static let monitors: [any Monitor.Type] = [Census.self, Alarm.self]
  static let composites: [any CompositeState.Type] = [PairState.self]
  static let views: [any TerminalView.Type] = [
    ButtonView.self, FragileView.self, TurnerView.self,
  ]
}
