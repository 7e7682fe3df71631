import dagre from "@dagrejs/dagre";
import { useMemo } from "react";
import type { GraphShape } from "../../agent/types.ts";
import type { NodePhase } from "../../agent/use-run.ts";

interface Point {
  x: number;
  y: number;
}

interface Props {
  graph: GraphShape;
  /** What the watched run did at each node. */
  nodes: Record<string, NodePhase>;
  /** Whether a run has begun, and whether it has ended. */
  hasStarted: boolean;
  isRunning: boolean;
}

const words: Record<NodePhase, string> = { now: "running", done: "done", failed: "failed", waiting: "waiting for you" };

/** The graph of an agent. It is laid out once; colours follow the run. */
export function GraphView({ graph, nodes, hasStarted, isRunning }: Props) {
  const layout = useMemo(() => layoutOf(graph), [graph]);
  const phaseOf = (name: string): NodePhase | "todo" => {
    if (name === "__start__") return hasStarted ? "done" : "todo";
    if (name === "__end__") {
      const isOver = hasStarted && !isRunning && !Object.values(nodes).some((phase) => phase !== "done");
      return isOver ? "done" : "todo";
    }
    return nodes[name] ?? "todo";
  };
  const told = layout.nodes
    .filter(({ name }) => !name.startsWith("__"))
    .map(({ name }) => `${name}${nodes[name] === undefined ? "" : `, ${words[nodes[name]]}`}`);
  return (
    <svg
      className="graph"
      viewBox={`0 0 ${layout.width} ${layout.height}`}
      style={{ maxWidth: `${layout.width * 1.15}px` }}
      role="img"
      aria-label={`Graph: ${told.join("; ")}`}
    >
      {layout.groups.map(({ name, x, y, width, height }) => (
        <g key={name} className={`gg ${phaseOf(name)}`} transform={`translate(${x - width / 2} ${y - height / 2})`}>
          <rect width={width} height={height} rx={9} />
          <text x={10} y={16}>
            {lastOf(name)}
          </text>
        </g>
      ))}
      {layout.edges.map(({ from, to, points, isConditional, label }) => {
        const [start, end] = [phaseOf(from), phaseOf(to)];
        const isNext = start === "done" && (end === "now" || end === "waiting");
        const isOn = (start === "done" || start === "now") && (end === "done" || end === "failed");
        const middle = points[Math.floor(points.length / 2)] as Point;
        return (
          <g
            key={`${from} ${to}`}
            className={`wire ${isNext ? "next" : isOn ? "on" : ""} ${isConditional ? "maybe" : ""}`}
          >
            <path className="edge" d={curveOf(points)} />
            <path className="edge-tip" d="M-7-3.5 0 0-7 3.5z" transform={tipOf(points)} />
            {label !== "" && (
              <text className="edge-text" x={middle.x} y={middle.y + 4}>
                {label}
              </text>
            )}
          </g>
        );
      })}
      {layout.nodes.map(({ name, x, y, width, height }) => {
        const phase = phaseOf(name);
        const isEnd = name.startsWith("__");
        return (
          <g
            key={name}
            className={`gn ${phase} ${isEnd ? "end" : ""}`}
            transform={`translate(${x - width / 2} ${y - height / 2})`}
          >
            {phase === "now" && <rect className="halo" x={-5} y={-5} width={width + 10} height={height + 10} rx={12} />}
            <rect width={width} height={height} rx={isEnd ? height / 2 : 7} />
            <text x={width / 2} y={height / 2 + 4}>
              {lastOf(name).replaceAll("__", "")}
            </text>
            {phase === "done" && !isEnd && <circle className="gn-mark" cx={width - 1} cy={1} r={4} />}
            {phase === "failed" && <rect className="gn-mark bad" x={width - 5} y={-3} width={8} height={8} rx={1.5} />}
            {phase === "waiting" && <circle className="gn-mark lamp" cx={width - 1} cy={1} r={5} />}
          </g>
        );
      })}
    </svg>
  );
}

/** A node of a graph inside of a node is named `outer:inner`. */
const lastOf = (name: string): string => name.slice(name.lastIndexOf(":") + 1);
const outerOf = (name: string): string => name.slice(0, Math.max(0, name.lastIndexOf(":")));

/** Returns the names of the nodes that contain others, the outermost first. */
function groupsOf(names: readonly string[]): string[] {
  const found = new Set<string>();
  for (const name of names) for (let at = outerOf(name); at !== ""; at = outerOf(at)) found.add(at);
  return [...found].filter((name) => !names.includes(name)).sort((a, b) => a.length - b.length);
}

/** Returns the positions of nodes and edges. Widths follow the names, 7.3 px a character. */
function layoutOf({ nodes, edges }: GraphShape) {
  const graph = new dagre.graphlib.Graph({ compound: true })
    .setGraph({ rankdir: "TB", nodesep: 28, ranksep: 44, marginx: 14, marginy: 14 })
    .setDefaultEdgeLabel(() => ({}));
  const names = nodes.map(({ id }) => String(id));
  for (const name of names) {
    const isEnd = name.startsWith("__");
    graph.setNode(name, { width: isEnd ? 58 : Math.max(84, lastOf(name).length * 7.3 + 28), height: isEnd ? 26 : 38 });
  }
  const groups = groupsOf(names);
  for (const name of groups) graph.setNode(name, {});
  for (const name of [...groups, ...names]) if (groups.includes(outerOf(name))) graph.setParent(name, outerOf(name));
  const known = edges.filter(({ source, target }) => names.includes(String(source)) && names.includes(String(target)));
  for (const { source, target, data } of known) {
    const label = typeof data === "string" ? data : "";
    graph.setEdge(String(source), String(target), {
      width: label.length * 6,
      height: label === "" ? 0 : 14,
      labelpos: "c",
    });
  }
  dagre.layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  const boxOf = (name: string) => ({ name, ...(graph.node(name) as Point & { width: number; height: number }) });
  return {
    width: size.width ?? 100,
    height: size.height ?? 100,
    groups: groups.map(boxOf),
    nodes: names.map(boxOf),
    edges: known.map(({ source, target, conditional, data }) => ({
      from: String(source),
      to: String(target),
      points: (graph.edge(String(source), String(target)) as unknown as { points: Point[] }).points,
      isConditional: conditional === true,
      label: typeof data === "string" ? data : "",
    })),
  };
}

/** Returns a curve through the points of the layout, which lead around the nodes. */
function curveOf(points: readonly Point[]): string {
  const [first, ...rest] = points as [Point, ...Point[]];
  let path = `M${first.x} ${first.y}`;
  rest.forEach((point, at) => {
    const next = rest[at + 1];
    path += next
      ? `Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`
      : `L${point.x} ${point.y}`;
  });
  return path;
}

function tipOf(points: readonly Point[]): string {
  const [before, tip] = [points.at(-2) as Point, points.at(-1) as Point];
  const degrees = (Math.atan2(tip.y - before.y, tip.x - before.x) * 180) / Math.PI;
  return `translate(${tip.x} ${tip.y}) rotate(${degrees})`;
}
