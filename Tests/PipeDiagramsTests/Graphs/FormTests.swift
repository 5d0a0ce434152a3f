import PipeDiagrams
import Testing

@Suite("The formats of a graph")
struct FormTests {
  /// The state chart of a door, with everything that a state chart can show.
  static let door = StateChart(
    name: "door", machine: "Door", initial: "closed",
    states: [
      .init("closed"), .init("open", fields: ["persons: Int"]), .init("broken"),
      .init("painted", isReached: false),
    ],
    transitions: [
      .init("closed", "open", "open"),
      .init("open", "close", "closed", uncertaintyReason: .dependsOnValues, isGuarded: true),
      .init("open", "kick", "broken", uncertaintyReason: .seenOnce),
      .init("open", "paint", nil, uncertaintyReason: .asynchronous),
    ], notes: ["a note"])

  /// A topology with a frame, a composite without a frame, a constant and a monitor.
  static let shop = Wiring(
    topology: "shop",
    nodes: [
      .init(name: "till", machine: "Till"), .init(name: "store", machine: "Store"),
      .init(name: "sky", machine: nil, constant: "blue"),
    ],
    pipes: [
      .init(
        name: "p", from: "till", to: "store", label: "orders → order",
        fill: .init(waiting: 3, capacity: 8))
    ],
    composites: [
      .init(name: "both", nodes: ["till", "store"], events: [("close", ["till", "store"])])
    ],
    monitors: [
      .init(name: "log", watched: ["till"]), .init(name: "all", watched: nil),
    ])

  @Test("A state chart is written as a DOT graph")
  func dot() {
    #expect(
      GraphFormat.dot.text(Self.door.graph(current: "open", text: "open(persons: 2)")) == #"""
        digraph "door: Door" {
          graph [fontname="sans-serif"]
          node [shape=box, fontname="sans-serif"]
          edge [fontname="sans-serif"]
          "closed" [label="closed\n(start)", style="rounded,bold"]
          "open" [label="open\nopen(persons: 2)\n(now)", penwidth=4, style="rounded"]
          "broken" [label="broken\n(end)", peripheries=2, style="rounded"]
          "painted" [label="painted\n(not met)", style="rounded,dotted"]
          "open ?" [label="?", shape=plaintext]
          "closed" -> "open" [label="open"]
          "open" -> "closed" [label="close [guard]", style=dotted]
          "open" -> "broken" [label="kick", style=dotted]
          "open" -> "open ?" [label="paint [asynchronous]", style=dotted]
          label="a note\l"; labeljust=l
        }

        """#)
    #expect(
      GraphFormat.dot.text(Self.shop.graph) == #"""
        digraph "shop" {
          graph [fontname="sans-serif"]
          node [shape=box, fontname="sans-serif"]
          edge [fontname="sans-serif"]
          "sky" [label="sky\nalways blue", shape=octagon]
          "log" [label="log\nwatches", shape=note]
          "all" [label="all\nwatches all", shape=note]
          subgraph "cluster_composite:both" {
            label="both\ntogether: close"
            "till" [label="till\nTill"]
            "store" [label="store\nStore"]
          }
          "till" -> "log" [style=dashed, arrowhead=vee]
          "till" -> "store" [label="orders → order  3/8"]
        }

        """#)
  }

  @Test("A state chart is written as a Mermaid flowchart")
  func mermaid() {
    #expect(
      GraphFormat.mermaid.text(Self.door.graph()) == """
        flowchart TD
          %% a note
          n1("closed<br>(start)")
          n2("open<br>persons: Int")
          n3("broken<br>(end)")
          n4("painted<br>(not met)")
          n5["?"]
          n1 -->|"open"| n2
          n2 -.->|"close [guard]"| n1
          n2 -.->|"kick"| n3
          n2 -.->|"paint [asynchronous]"| n5
          classDef initialMark stroke-width:2px
          class n1 initialMark
          classDef finalMark stroke-width:2px,stroke-dasharray:8 2
          class n3 finalMark
          classDef unreachedMark stroke-dasharray:2 2
          class n4 unreachedMark

        """)
    #expect(
      GraphFormat.mermaid.text(Self.shop.graph) == """
        flowchart TD
          n3[["sky<br>always blue"]]
          n4>"log<br>watches"]
          n5>"all<br>watches all"]
          subgraph c1["both<br>together: close"]
            n1["till<br>Till"]
            n2["store<br>Store"]
          end
          n1 -.-> n4
          n1 -->|"orders → order  3/8"| n2

        """)
  }

  @Test("A state chart is written as a PlantUML state diagram")
  func plantUML() {
    #expect(
      GraphFormat.plantuml.text(Self.door.graph()) == """
        @startuml
        title door: Door
        state "closed\\n(start)" as n1
        state "open\\npersons: Int" as n2
        state "broken\\n(end)" as n3
        state "painted\\n(not met)" as n4 #line.dotted
        state "?" as n5
        [*] --> n1
        n3 --> [*]
        n1 --> n2 : open
        n2 -[dotted]-> n1 : close &#91;guard&#93;
        n2 -[dotted]-> n3 : kick
        n2 -[dotted]-> n5 : paint &#91;asynchronous&#93;
        legend
        a note
        endlegend
        @enduml

        """)
  }

  @Test("A wiring is drawn as ASCII art")
  func ascii() {
    #expect(
      GraphFormat.ascii.text(Self.shop.graph) == """
        shop

          .---------------------------------.
          | both                            |
          | together: close                 |
          |                                 |
          |                                 |
          |  +------+                       |
          |  | till |                       |
          |  | Till |                       |
          |  +------+                       |
          |   :|                            |
          |   :| orders → order  3/8        |
          |   ++.......+                    |
          |    v       :                    |
          |  +-------+ :                    |
          |  | store | :                    |
          |  | Store | :                    |
          |  +-------+ :                    |
          |            :                    |
          .------------+--------------------.
                       :
                       :
                       v
                      +---------+
                      | log     |
                      | watches |
                      +---------+



         +-------------+        +-------------+
         | sky         |        | all         |
         | always blue |        | watches all |
         +-------------+        +-------------+

        """)
    #expect(
      GraphFormat.ascii.text(Self.door.graph(current: "open", text: "open(persons: 2)")) == """
        door: Door

                    +---------+
                    | closed  |
                    | (start) |
                    +---------+
                       ^|
         close [guard] :| open
                       :|
                       :|
                       :v
               ####################
               # open             #
               # open(persons: 2) #
               # (now)            #.....+
               ####################     : kick
                 :                      :
                 : paint [asynchronous] :
                 :                      :
                 :                      :
                 :                      :
                 v                      :
                           +========+   :
                ?          | broken |<..+
                           | (end)  |
                           +========+





                   .............
                   : painted   :
                   : (not met) :
                   .............

        note: a note

        """)
  }

  @Test("JSON contains the whole graph, and SVG has no external references")
  func others() {
    let text = GraphFormat.json.text(Self.door.graph())
    #expect(text.contains(#""isCertain":false"#))
    #expect(
      text.contains(
        #"{"cluster":null,"id":"closed","kind":"state","lines":["closed"],"marks":["initial"]}"#))
    let svg = GraphFormat.svg.text(Self.shop.graph)
    #expect(svg.hasPrefix("<svg xmlns=\"http://www.w3.org/2000/svg\" "))
    #expect(svg.hasSuffix("</svg>\n"))
    #expect(svg.components("http") == 1)
    for word in ["<script", "href", "url(", "@import"] { #expect(!svg.contains(word)) }
  }

  @Test("Text in a graph never becomes markup, in any format", arguments: GraphFormat.allCases)
  func markup(form: GraphFormat) {
    let hostile = "<img src=x onerror=alert(1)>\"]; evil --> \\n `x` #quot; & \u{1B}[31m\r\n@enduml"
    var graph = Graph(title: hostile, nodes: [Graph.Node(hostile, .state)], notes: [hostile])
    graph.edges = [Graph.Edge(hostile, hostile, .transition, labels: [hostile])]
    graph.clusters = [Graph.Cluster("c", lines: [hostile])]
    let text = form.text(graph)
    #expect(!text.contains("\u{1B}"))
    switch form {
    case .svg: #expect(!text.contains("<img"))
    case .mermaid: #expect(!text.contains("<img src") || text.contains("%% <img"))
    case .dot: #expect(!text.contains("alert(1)>\"]"))
    case .plantuml: #expect(text.components("@enduml") == 1)
    case .ascii, .json: break
    }
  }

  @Test("Every format shows each node of a graph of 500 nodes", arguments: GraphFormat.allCases)
  func many(form: GraphFormat) {
    let text = form.text(LayoutTests.random(500, edges: 500, clusters: 5, seed: 11))
    #expect(text.utf8.count > 5_000)
  }
}

extension String {
  fileprivate func components(_ part: String) -> Int {
    var count = 0
    var rest = self[...]
    while let range = rest.firstRange(of: part) {
      count += 1
      rest = rest[range.upperBound...]
    }
    return count
  }
}
