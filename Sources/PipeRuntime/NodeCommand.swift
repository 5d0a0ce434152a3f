import CProcess
import Dispatch
import FoundationEssentials
import Glibc
import PipeClient
import PipeMachines
import PipeNode
import PipeSupport
import PipeTransport
import PipeWire

/// The command line of a node program.
struct NodeCommand {
  let machines: [any Machine.Type]
  let monitors: [any Monitor.Type]
  let composites: [any CompositeState.Type]
  let views: [any TerminalView.Type]
  let arguments: [String]

  private var program: String {
    arguments.first?.split(separator: "/").last.map(String.init) ?? "nodes"
  }

  func run() -> Never {
    checkNames()
    let rest = arguments.dropFirst(2)
    switch arguments.dropFirst().first {
    case "run": runNode(rest)
    case "describe": describe(rest)
    case "list": list()
    case "monitor": attach(rest)
    case "view": view(rest)
    case "help", "--help", "-h":
      print(help)
      exit(0)
    case let verb?: usage("unknown verb '\(verb)'")
    case nil: usage("a verb is missing")
    }
  }

  private func checkNames() {
    var seen: Set<String> = []
    for name in machines.map({ $0.name }) + monitors.map({ $0.name }) + composites.map({ $0.name })
    where !seen.insert(name).inserted {
      stop(
        "two machines, monitors or composite states are named '\(name)'; give one of them another "
          + "'name'", code: 2)
    }
    seen = []
    for view in views where !seen.insert(view.name).inserted {
      stop("two views are named '\(view.name)'; give one of them another 'name'", code: 2)
    }
  }

  // MARK: run

  private var host: NodeHost {
    NodeHost(
      machines: machines,
      monitors: monitors.map { monitor in
        HostedMonitor(name: monitor.name) { topology, control, watch in
          try await monitor.observe(topology: topology, control: control, watch: watch)
        }
      }, composites: composites)
  }

  private func runNode(_ rest: ArraySlice<String>) -> Never {
    let arguments: NodeArguments
    do {
      arguments = try NodeArguments(parsing: rest)
    } catch {
      usage("\(error)")
    }
    let log = NodeLog()
    do {
      exit(try host.serve(arguments, log: log))
    } catch {
      log.failure("\(error)")
      exit(1)
    }
  }

  // MARK: describe, list

  private func describe(_ rest: ArraySlice<String>) -> Never {
    do {
      let body: Data
      if rest.isEmpty {
        body = try JSONEncoder().encode(
          ProgramDescription(
            program: program, protocolVersion: Int(FrameHeader.version),
            machines: machines.map { $0.description(parameters: [:]) },
            monitors: monitors.map { $0.name },
            composites: composites.map { $0.description }))
      } else {
        body = try JSONEncoder().encode(
          try DescriptionRequest.parse(rest).map { request in
            try host.machine(request.machine).description(parameters: request.parameters)
          })
      }
      print(String(decoding: body, as: UTF8.self))
      exit(0)
    } catch let error as NodeUsageError {
      usage("\(error)")
    } catch {
      stop("\(error)", code: 1)
    }
  }

  private func list() -> Never {
    for machine in machines { print("machine \(machine.name)") }
    for monitor in monitors { print("monitor \(monitor.name)") }
    for composite in composites {
      let types = composite.description.components.map(\.type).joined(separator: ", ")
      print("composite \(composite.name) of \(types)")
    }
    for view in views { print("view \(view.name)") }
    exit(0)
  }

  // MARK: monitor

  private func attach(_ rest: ArraySlice<String>) -> Never {
    var topology: String?
    var watch: [String]?
    var names: [String] = []
    var iterator = rest.makeIterator()
    while let argument = iterator.next() {
      switch argument {
      case "-p", "--topology":
        guard let value = iterator.next() else { usage("'\(argument)' needs a topology's name") }
        topology = value
      case "--watch":
        guard let value = iterator.next() else { usage("'--watch' needs nodes: a,b") }
        watch = value.split(separator: ",").map(String.init)
      default:
        if argument.hasPrefix("-") { usage("unknown option '\(argument)'") }
        names.append(argument)
      }
    }
    guard names.count == 1, let monitor = monitors.first(where: { $0.name == names[0] }) else {
      let known = monitors.map { "'\($0.name)'" }.joined(separator: ", ")
      usage("name one monitor of this program: \(known.isEmpty ? "it has none" : known)")
    }
    pr_line_buffer_output()
    let (program, chosen) = (program, topology)
    let watched = watch
    let code = Blocking.run {
      do {
        let directories = try RunningTopology.choose(chosen)
        try await monitor.observe(
          topology: directories.topology, control: directories.endpoint(.control), watch: watched)
        return 0 as Int32
      } catch {
        StandardError.write("\(program): error: \(error)\n")
        return (error as? TopologyClientError)?.exitCode ?? 1
      }
    }
    exit(code)
  }

  // MARK: view

  private func view(_ rest: ArraySlice<String>) -> Never {
    do throws(ViewCommand.UsageError) {
      exit(try ViewCommand(program: program, views: views).run(ViewCommand.parse(rest)))
    } catch {
      usage("\(error)")
    }
  }

  // MARK: Messages

  private var help: String {
    """
    \(program): hosts state machines as nodes of a topology.

      \(program) list                           the machines, monitors, composite states and views it has
      \(program) describe                       what its machines take and give, as JSON
      \(program) monitor NAME [-p TOPOLOGY] [--watch A,B]
                                               attach a monitor to a running topology
      \(program) view VIEW NODE [-p TOPOLOGY] [-n N]
                                               show a node on the terminal, and send it events by keys;
                                               print it where there is no terminal, N times at most
      \(program) run …                          called by 'orchestrator run FILE'

    '-p' is '--topology', '-n' is '--count'. A view ends with q or ^C, and with exit code 0 then, 1
    where the node, the topology or the terminal has gone, 2 where it is called in a wrong way or
    cannot show the node's states, 3 where no such topology runs.
    """
  }

  private func usage(_ problem: String) -> Never {
    stop("\(problem)\n\(help)", code: 2)
  }

  private func stop(_ problem: String, code: Int32) -> Never {
    StandardError.write("\(program): error: \(problem)\n")
    exit(code)
  }
}
