import Compositions
import Kettles
import PipeRuntime
import Screens

/// The program of the example machines.
@main package struct ExampleProgram: NodeProgram {
  package static let machines: [any Machine.Type] = [
    ElevatorDoor.self, ElevatorMotor.self, FloorDisplay.self, Passengers.self,
    WashingMachine.self, WasherPanel.self,
    Relay.self, Tally.self,
    LiftDoor.self, LiftMotor.self, ModelMachine<ModelA>.self,
    ModelMachine<ModelB>.self,
    Counter.self, CounterTally.self, ModelMachine<ExampleModel>.self,
    MainCoordinator.self, LoginScreen.self, ListScreen.self, DetailScreen.self,
    RegistrationCoordinator.self, ResultsScreen.self, ProfileScreen.self,
    KettleMachine.self, KettleReducer.self, ModelMachine<KettleModel>.self, KettleNode.self,
    KettleLoader.self,
    MoviesList.self, MoviesPages.self, QuizesList.self, QuizScreen.self, QuizResults.self,
    AddressForm.self, AddressBook.self, ReducedWashingMachine.self,
    Philosopher.self, Fork.self, VendingUser.self, VendingMachine.self,
    Order.self, Shipment.self, CardPayment.self, Payment.self, Goods.self,
  ]
  package static let monitors: [any Monitor.Type] = [StateLog.self]
  package static let composites: [any CompositeState.Type] = [LiftState.self, ModelsState.self]
  package static let views: [any TerminalView.Type] = [
    DoorView.self, MotorView.self, DisplayView.self, WasherView.self,
    QuizesView.self, QuizView.self, ResultsView.self, MoviesView.self, MoviesPagesView.self,
    AddressView.self, CounterView.self, TallyView.self, NavigationView.self,
    RegistrationView.self, ExampleView.self, LiftView.self, ModelsView.self,
    PhilosopherView.self, ForkView.self, VendingView.self, VendingUserView.self,
    KettleView.self, KettleLoaderView.self, RelayView.self, RelayTallyView.self,
    PassengersView.self, WasherPanelView.self,
  ]
}
