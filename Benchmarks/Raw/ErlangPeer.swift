import FoundationEssentials
import Glibc
import PipeRuntime
import PipeSupervision

/// A state machine in Erlang/OTP (`gen_statem`), measured as a baseline for pipes. The sender and
/// the receiver run in two virtual machines.
final class ErlangPeer {
  /// A task to measure. The raw value is the name of the Erlang function.
  enum Task: String, CaseIterable {
    /// Casts within a virtual machine, until the last cast is processed.
    case localCasts = "local_casts"
    /// Calls within a virtual machine, in sequence.
    case localCalls = "local_calls"
    /// Casts of 64 bytes to another virtual machine.
    case casts
    /// Casts of an atom to another virtual machine.
    case bareCasts = "bare_casts"
    /// Calls to another virtual machine, in sequence.
    case calls
  }

  /// The times per operation. Unit: seconds.
  struct Result {
    let elapsed: Double
    /// The processor time in the sending virtual machine (`own`) and in the receiving one
    /// (`other`).
    let own: Double
    let other: Double
  }

  private let directory: TemporaryDirectory
  private let programs: (erl: String, epmd: String)
  private let port: Int32
  private var processes: [ChildProcess] = []

  /// Creates a peer; `nil` if Erlang is not installed.
  init?(in directory: TemporaryDirectory) throws {
    guard let erl = Programs.find("erl"), let erlc = Programs.find("erlc"),
      let epmd = Programs.find("epmd")
    else { return nil }
    self.directory = directory
    programs = (erl, epmd)
    port = 20_000 + getpid() % 20_000
    let source = try directory.write(Self.source, to: "bench_peer.erl")
    try finish(spawn(erlc, ["-o", directory.path, source]), "erlc")
    // Do not start a daemon, because it would outlive the benchmark.
    processes.append(try spawn(epmd, ["-port", "\(port)", "-address", "127.0.0.1"]))
    processes.append(try spawn(erl, arguments("other", "bench_peer:serve()")))
  }

  deinit {
    // End the name service last, in reverse order of the starts.
    for index in processes.indices.reversed() { processes[index].end() }
  }

  /// Runs a task in a new virtual machine, and returns its times.
  func measure(_ task: Task, count: Int) throws -> Result {
    let output = directory.uniquePath("erlang")
    try finish(
      spawn(
        programs.erl, arguments("own", "bench_peer:measure(\(task.rawValue), \(count))"),
        writingTo: output), "erl")
    let numbers = HostMachine.text(of: output).split(whereSeparator: \.isWhitespace)
      .compactMap { Double($0) }
    guard numbers.count == 3 else {
      throw HarnessError("Erlang wrote something else: \(HostMachine.text(of: output))")
    }
    let perOperation = numbers.map { $0 / Double(count) }
    return Result(
      elapsed: perOperation[0] / 1e9, own: perOperation[1] / 1e3, other: perOperation[2] / 1e3)
  }

  private func arguments(_ name: String, _ expression: String) -> [String] {
    [
      "-noshell", "-name", "\(name)@127.0.0.1", "-setcookie", "bench\(getpid())", "-start_epmd",
      "false", "-kernel", "inet_dist_use_interface", "{127,0,0,1}", "-pa", directory.path, "-eval",
      expression + ".",
    ]
  }

  private func spawn(
    _ program: String, _ arguments: [String], writingTo path: String? = nil
  ) throws -> ChildProcess {
    let path = path ?? directory.path + "/erlang.out"
    let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    let variables = [
      "ERL_EPMD_PORT": "\(port)", "HOME": directory.path, "ERL_CRASH_DUMP_BYTES": "0",
    ]
    return try ChildProcess.spawn(
      ChildCommand(
        path: program, arguments: arguments,
        environment: ProcessEnvironment.current.merging(variables) { $1 },
        output: .descriptor(descriptor)))
  }

  private func finish(_ process: ChildProcess, _ name: String) throws {
    var process = process
    let status = process.wait()
    guard status == .exited(code: 0) else {
      throw HarnessError(
        "\(name): \(status.map { "\($0)" } ?? "no end")\n"
          + HostMachine.text(of: directory.path + "/erlang.out"))
    }
  }

  private static let source = """
    -module(bench_peer).
    -behaviour(gen_statem).
    -export([serve/0, measure/2]).
    -export([init/1, callback_mode/0, handle_event/4]).

    callback_mode() -> handle_event_function.
    init([]) -> {ok, receiving, 0}.
    handle_event(cast, tick, receiving, Count) -> {keep_state, Count + 1};
    handle_event(cast, {reading, _Bytes}, receiving, Count) -> {keep_state, Count + 1};
    handle_event({call, From}, count, receiving, Count) ->
      {keep_state_and_data, [{reply, From, Count}]}.

    serve() -> {ok, _} = gen_statem:start({local, sink}, ?MODULE, [], []).

    measure(Task, Count) ->
      Other = 'other@127.0.0.1',
      connect(Other, 1000),
      Bytes = binary:copy(<<"x">>, 64),
      {Sink, Work} = case Task of
        local_casts -> {here(), fun(To) -> cast(To, {reading, Bytes}, Count) end};
        local_calls -> {here(), fun(To) -> call(To, Count) end};
        casts -> {{sink, Other}, fun(To) -> cast(To, {reading, Bytes}, Count) end};
        bare_casts -> {{sink, Other}, fun(To) -> cast(To, tick, Count) end};
        calls -> {{sink, Other}, fun(To) -> call(To, Count) end}
      end,
      %% Once for what is made at first.
      gen_statem:call(Sink, count, infinity),
      {Own, Others} = used(Other),
      Start = erlang:monotonic_time(nanosecond),
      Work(Sink),
      Elapsed = erlang:monotonic_time(nanosecond) - Start,
      {OwnAfter, OthersAfter} = used(Other),
      io:format("~b ~b ~b~n", [Elapsed, OwnAfter - Own, OthersAfter - Others]),
      halt().

    here() -> {ok, Pid} = gen_statem:start(?MODULE, [], []), Pid.

    %% Casts, and a call behind them.
    cast(To, Event, Count) ->
      Before = gen_statem:call(To, count, infinity),
      [gen_statem:cast(To, Event) || _ <- lists:seq(1, Count)],
      Before = gen_statem:call(To, count, infinity) - Count.

    call(To, Count) ->
      [gen_statem:call(To, count, infinity) || _ <- lists:seq(1, Count)].

    used(Other) ->
      {Own, _} = statistics(runtime),
      {Others, _} = rpc:call(Other, erlang, statistics, [runtime]),
      {Own, Others}.

    %% The other one may be about to start.
    connect(Other, 0) -> io:format("~p does not answer~n", [Other]), halt(1);
    connect(Other, Times) ->
      case net_kernel:connect_node(Other) andalso rpc:call(Other, erlang, whereis, [sink]) of
        Pid when is_pid(Pid) -> ok;
        _ -> timer:sleep(20), connect(Other, Times - 1)
      end.
    """
}
