import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { buildGoProgram } from "../support/go-program.ts";

const directory = path.join(import.meta.dirname, "policies");

/** The version of kube-router in `policies/go.mod`. */
const version = "2.1.0";

/** Programs that the policy engine calls and this machine lacks; null: none is missing. */
export const policyEngineMissing = ["/usr/sbin/ipset", "/usr/sbin/iptables"].every((file) => existsSync(file))
  ? null
  : "ipset, iptables (apt-get install ipset iptables)";

/** Compiles kube-router, which enforces NetworkPolicies by iptables, in some minutes, unless it was compiled before. @returns its path */
export async function compilePolicyEngine(): Promise<string> {
  const built = await buildGoProgram({
    ...{ name: "kube-router", directory, version, sources: ["go.mod", "go.sum"] },
    args: ["-ldflags", "-s -w", "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"],
  });
  if ("missing" in built) throw new Error(built.missing);
  return built.path;
}

/** Flags with which kube-router enforces policies beside another network and another proxy of Services. */
export const policyEngineFlags = (kubeconfig: string, nodeName: string) => [
  ...["--run-firewall=true", "--run-router=false", "--run-service-proxy=false"],
  ...["--enable-ipv4=true", "--enable-ipv6=false", `--kubeconfig=${kubeconfig}`, `--hostname-override=${nodeName}`],
  ...["--service-cluster-ip-range=10.96.0.0/16", "--health-port=0", "--iptables-sync-period=1m"],
];

const ownChain = /^-N (KUBE-(?:ROUTER|NWPLCY|POD-FW)-\S+)/;
const ownJump = /^-A (INPUT|FORWARD|OUTPUT) -m comment --comment "(kube-router netpol[^"]*)" -j (\S+)/;

/** Removes the rules and sets of addresses that kube-router leaves behind. Its own `--cleanup-config` ends in a panic. */
export function removePolicies(): void {
  const read = (command: string, ...args: string[]) => execFileSync(command, args, { encoding: "utf8" }).split("\n");
  const rules = read("iptables", "-S");
  for (const rule of rules) {
    const [, chain = "", comment = "", target = ""] = ownJump.exec(rule) ?? [];
    if (chain !== "") read("iptables", "-D", chain, "-m", "comment", "--comment", comment, "-j", target);
  }
  const chains = rules.flatMap((rule) => ownChain.exec(rule)?.[1] ?? []);
  for (const change of ["-F", "-X"]) for (const chain of chains) read("iptables", change, chain);
  for (const name of read("ipset", "list", "-n")) {
    if (/^(?:inet6:)?(?:KUBE-(?:SRC|DST)-|kube-router-)/.test(name)) read("ipset", "destroy", name);
  }
}
