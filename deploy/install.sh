#!/bin/sh
# Installs Pierhead on a Linux machine with systemd, for all users of one server:
#   curl -fsSL ADDRESS-OF-THIS-FILE | sudo sh
# Later, without a download of this script:
#   sudo /opt/pierhead/install.sh upgrade
#   sudo /opt/pierhead/install.sh uninstall
set -eu

prefix=/opt/pierhead
settings=/etc/pierhead
data=/var/lib/pierhead
backups=/var/backups/pierhead
command=/usr/local/bin/pierhead
units=/etc/systemd/system
limits=/etc/sysctl.d/60-pierhead.conf
node_major=24

usage() {
  cat <<'END'
install.sh [install | upgrade | uninstall] [OPTION...]

  --package SPEC      what to install: a version from npm (pierhead@0.1.0), a tarball or its address
  --node PROGRAM      Node 22.19 or newer; by default the one of the machine, or a download from nodejs.org
  --compute NAME      docker or process; by default docker where the machine has a Docker socket
  --port PORT         default 8124; the server listens on 127.0.0.1
  --public-url URL    address of the reverse proxy in front of it
  --agents-domain D   domain that serves the agents alone
  --keep-backups N    number of daily backups to keep; first 14, later as before
  --no-backup         upgrade without a backup
  --purge             uninstall: delete settings, data and backups, too

The options for settings apply to the first installation. Later, edit /etc/pierhead/pierhead.env.
END
}

say() { printf '%s\n' "$*"; }
fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

main() {
  action=install package='' node_given='' compute='' port=8124 public_url='' agents_domain='' keep='' backup=yes purge=no
  case "${1:-}" in install | upgrade | uninstall) action=$1 && shift ;; esac
  while [ $# -gt 0 ]; do
    case "$1" in
      --no-backup) backup=no ;;
      --purge) purge=yes ;;
      -h | --help) usage && exit 0 ;;
      --package | --node | --compute | --port | --public-url | --agents-domain | --keep-backups)
        [ $# -gt 1 ] || fail "$1 needs a value"
        case "$1" in
          --package) package=$2 ;;
          --node) node_given=$2 ;;
          --compute) compute=$2 ;;
          --port) port=$2 ;;
          --public-url) public_url=$2 ;;
          --agents-domain) agents_domain=$2 ;;
          --keep-backups) keep=$2 ;;
        esac
        shift
        ;;
      *) usage >&2 && fail "unknown argument: $1" ;;
    esac
    shift
  done
  case "$compute" in '' | docker | process) ;; *) fail "--compute is docker or process, not $compute" ;; esac
  case "$port" in '' | *[!0-9]*) fail "--port is a number, not $port" ;; esac
  case "$keep" in 0 | *[!0-9]*) fail "--keep-backups is a number above 0, not $keep" ;; esac
  # A line break in a value would be another setting.
  case "$public_url$agents_domain" in *[!A-Za-z0-9.:/_-]*) fail "--public-url and --agents-domain are an address and a name" ;; esac

  [ "$(id -u)" = 0 ] || fail "run this as root, for example with sudo"
  [ -d /run/systemd/system ] || fail "this machine is not run by systemd. Use deploy/compose.yaml, or npx pierhead up"
  umask 022
  if [ "$action" = uninstall ]; then uninstall; else install_release; fi
}

install_release() {
  previous=$(readlink "$prefix/current" 2>/dev/null || true)
  [ "$action" = install ] || [ -n "$previous" ] || fail "nothing to upgrade: $prefix/current does not exist"
  make_user
  find_node
  find_npm
  if [ -n "$previous" ] && [ "$backup" = yes ] && systemctl is-active --quiet pierhead; then
    say "Backing up to $backups"
    systemctl start pierhead-backup || fail "the backup failed: journalctl -u pierhead-backup. Nothing has changed. --no-backup upgrades without it"
  fi

  release=releases/$(date -u +%Y%m%dT%H%M%SZ)-$$
  say "Installing ${package:-pierhead} into $prefix/$release"
  mkdir -p "$prefix/$release"
  case "$package" in
    '') package=pierhead ;;
    # npm reads a relative path from its own directory.
    *.tgz) if [ -f "$package" ]; then package=$(readlink -f "$package"); fi ;;
  esac
  # npm runs with the Node that will run the server, so that it checks the right version.
  if ! (cd "$prefix/$release" && PATH="$prefix/node/bin:$PATH" "$prefix/node/bin/node" "$npm" install --prefix . --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error "$package" >/dev/null); then
    rm -rf "${prefix:?}/$release"
    fail "npm could not install $package. Nothing has changed"
  fi
  main_js=node_modules/pierhead/dist/main.js
  if ! version=$("$prefix/node/bin/node" "$prefix/$release/$main_js" --version 2>/dev/null); then
    rm -rf "${prefix:?}/$release"
    fail "$package does not contain Pierhead, or its program does not start. Nothing has changed"
  fi

  write_settings
  write_units
  use "$release"
  systemctl daemon-reload
  systemctl enable --quiet pierhead.service pierhead-backup.timer
  systemctl restart pierhead.service
  systemctl start pierhead-backup.timer
  if ! answers; then
    journalctl -u pierhead -n 20 --no-pager -o cat >&2 || true
    [ -n "$previous" ] || fail "the server does not answer. Its log: journalctl -u pierhead"
    use "$previous"
    rm -rf "${prefix:?}/$release"
    systemctl restart pierhead.service
    answers || fail "version $version does not answer, and neither does the one before. Its log: journalctl -u pierhead"
    fail "version $version does not answer. The one before is running again"
  fi
  # The shell reads its script while it runs, so an upgrade must not write into the file that runs it.
  install -m 0755 "$prefix/$release/node_modules/pierhead/dist/install.sh" "$prefix/install.sh.new"
  mv "$prefix/install.sh.new" "$prefix/install.sh"
  for one in "$prefix"/releases/*; do
    # Agents of the version before still run on its files until their next revision.
    case "releases/${one##*/}" in "$release" | "$previous") ;; *) rm -rf "$one" ;; esac
  done
  say "Pierhead $version answers at $address"
  say "  Settings  $settings/pierhead.env, then: systemctl restart pierhead"
  say "  Secrets   keep a copy of $settings/master.key away from the backups in $backups"
  say "  Next      sudo pierhead doctor; sudo pierhead open"
}

make_user() {
  if ! id pierhead >/dev/null 2>&1; then
    useradd --system --user-group --home-dir "$data" --no-create-home --shell /usr/sbin/nologin pierhead
  fi
  install -d -o pierhead -g pierhead -m 0700 "$data" "$backups"
  install -d -o root -g pierhead -m 0750 "$settings"
  install -d "$prefix" "$prefix/releases"
}

# Puts Node at $prefix/node, because the service must not depend on a program in a user's home.
find_node() {
  if [ -n "$node_given" ]; then
    new_enough "$node_given" || fail "$node_given is not Node 22.19 or newer"
    install -d "$prefix/node/bin"
    install -m 0755 "$node_given" "$prefix/node/bin/node.new"
    mv "$prefix/node/bin/node.new" "$prefix/node/bin/node"
  elif ! new_enough "$prefix/node/bin/node"; then
    own=$(command -v node || true)
    if [ -n "$own" ] && new_enough "$own"; then
      own=$(readlink -f "$own")
      install -d "$prefix/node/bin"
      install -m 0755 "$own" "$prefix/node/bin/node"
    else
      download_node
    fi
  fi
}

new_enough() {
  [ -x "$1" ] && "$1" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 19) ? 0 : 1)' 2>/dev/null
}

download_node() {
  case "$(uname -m)" in
    x86_64) arch=x64 ;;
    aarch64) arch=arm64 ;;
    *) fail "nodejs.org has no Node for $(uname -m): install Node 22.19 or newer and name it with --node" ;;
  esac
  command -v curl >/dev/null || fail "curl is missing: install it, or name a Node with --node"
  from=https://nodejs.org/dist/latest-v$node_major.x
  draft=$(mktemp -d)
  say "Downloading Node $node_major from $from"
  curl -fsSL --retry 3 "$from/SHASUMS256.txt" -o "$draft/sums" || fail "$from cannot be reached: name a Node with --node"
  archive=$(sed -n "s/^[0-9a-f]*  \(node-v[0-9.]*-linux-$arch\.tar\.gz\)$/\1/p" "$draft/sums")
  [ -n "$archive" ] || fail "$from has no Node for linux-$arch"
  curl -fsSL --retry 3 "$from/$archive" -o "$draft/$archive" || fail "$from/$archive cannot be downloaded"
  (cd "$draft" && grep " $archive\$" sums | sha256sum -c --quiet -) || fail "$archive has another checksum than $from reports"
  rm -rf "$prefix/node.new"
  mkdir "$prefix/node.new"
  tar -xzf "$draft/$archive" -C "$prefix/node.new" --strip-components=1 --no-same-owner
  rm -rf "$prefix/node" "$draft"
  mv "$prefix/node.new" "$prefix/node"
}

find_npm() {
  npm=$prefix/node/lib/node_modules/npm/bin/npm-cli.js
  [ -f "$npm" ] && return
  npm=$(command -v npm || true)
  [ -n "$npm" ] || fail "npm is missing: install it beside Node"
  npm=$(readlink -f "$npm")
}

write_settings() {
  write_key
  [ -f "$settings/pierhead.env" ] || write_environment
  # Access to Docker is equivalent to root. Without containers, agents run as this user and would have it, too.
  if grep -q '^PIERHEAD_COMPUTE=docker' "$settings/pierhead.env" && getent group docker >/dev/null; then
    usermod -aG docker pierhead
  fi
  if grep -q '^PIERHEAD_COMPUTE=docker' "$settings/pierhead.env"; then write_limits; fi
}

# The limits of docs/guides/docker.md, which the containers of all agents share. What an operator wrote stays.
write_limits() {
  [ ! -f "$limits" ] || return 0
  cat >"$limits" <<END
# Limits of the kernel that one agent in a container could exhaust for all: docs/guides/docker.md
fs.epoll.max_user_watches = 1000000000
fs.inotify.max_user_instances = 1000000
kernel.pid_max = 4194304
net.ipv4.neigh.default.gc_thresh2 = 524288
net.ipv4.neigh.default.gc_thresh3 = 1048576
END
  sysctl -q -p "$limits" || say "The limits in $limits could not be set now. They hold after the next start of this machine."
}

write_key() {
  # Data that was there before is under the key that a server without PIERHEAD_MASTER_KEY_FILE made.
  if [ ! -f "$settings/master.key" ] && [ -f "$data/master.key" ]; then
    (umask 077 && cp "$data/master.key" "$settings/master.key")
  fi
  [ -f "$settings/master.key" ] || (umask 077 && head -c 32 /dev/urandom | base64 >"$settings/master.key")
  chown root:pierhead "$settings/master.key"
  chmod 0640 "$settings/master.key"
}

write_environment() {
  if [ -z "$compute" ]; then if [ -S /var/run/docker.sock ]; then compute=docker; else compute=process; fi; fi
  {
    say "# Settings of Pierhead, one NAME=VALUE a line: docs/reference/configuration.md. Then: systemctl restart pierhead"
    say "PORT=$port"
    say "PIERHEAD_DATA_DIR=$data"
    say "PIERHEAD_MASTER_KEY_FILE=$settings/master.key"
    say "PIERHEAD_COMPUTE=$compute"
    if [ -n "$public_url" ]; then
      say "PIERHEAD_PUBLIC_URL=$public_url"
      say "PIERHEAD_TRUSTED_PROXIES=127.0.0.1"
    fi
    if [ -n "$agents_domain" ]; then say "PIERHEAD_AGENTS_DOMAIN=$agents_domain"; fi
  } >"$settings/pierhead.env"
  chown root:pierhead "$settings/pierhead.env"
  chmod 0640 "$settings/pierhead.env"
}

write_units() {
  if [ -z "$keep" ]; then
    first=$(sed -n 's/.*tail -n +\([0-9]*\) .*/\1/p' "$units/pierhead-backup.service" 2>/dev/null || true)
    keep=$((${first:-15} - 1))
  fi
  # A command of root or of the service's user finds the server's key in the data directory. Others sign in.
  {
    say '#!/bin/sh'
    say "if [ -r $data/credentials.json ]; then export PIERHEAD_DATA_DIR=\"\${PIERHEAD_DATA_DIR:-$data}\"; fi"
    say "exec $prefix/node/bin/node $prefix/current/$main_js \"\$@\""
  } >"$command.new"
  chmod 0755 "$command.new"
  mv "$command.new" "$command"

  cat >"$units/pierhead.service" <<END
[Unit]
Description=Pierhead, a control plane for agent servers
Wants=network-online.target
After=network-online.target docker.service

[Service]
Type=exec
User=pierhead
Group=pierhead
EnvironmentFile=$settings/pierhead.env
Environment=NODE_ENV=production HOME=$data
WorkingDirectory=$data
ExecStart=$prefix/node/bin/node --enable-source-maps $prefix/current/$main_js up
Restart=always
RestartSec=2
TimeoutStopSec=60
# Agents keep running while the server restarts. The next start finds them again.
KillMode=process
LimitNOFILE=65536
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=yes

[Install]
WantedBy=multi-user.target
END

  cat >"$units/pierhead-backup.service" <<END
[Unit]
Description=Backup of Pierhead
After=pierhead.service

[Service]
Type=oneshot
User=pierhead
Group=pierhead
UMask=0077
WorkingDirectory=$backups
ExecStart=$command backup
ExecStartPost=/bin/sh -c 'ls -1t pierhead-*.tar.gz | tail -n +$((keep + 1)) | xargs -r rm --'
NoNewPrivileges=yes
END

  cat >"$units/pierhead-backup.timer" <<END
[Unit]
Description=Daily backup of Pierhead

[Timer]
OnCalendar=daily
RandomizedDelaySec=1h
Persistent=true

[Install]
WantedBy=timers.target
END
}

# Replaces the link in one step, so that a start at any moment finds a program.
use() {
  ln -sfn "$1" "$prefix/current.new"
  mv -T "$prefix/current.new" "$prefix/current"
}

# Waits for up to two minutes until the server is ready. It migrates its tables first.
answers() {
  address=http://127.0.0.1:$(sed -n 's/^PORT=\([0-9]*\).*/\1/p' "$settings/pierhead.env" | tail -n 1)
  "$prefix/node/bin/node" -e '
    const until = Date.now() + 120_000;
    const ask = () => fetch(process.argv[1] + "/ready", { signal: AbortSignal.timeout(5_000) }).then((r) => r.ok, () => false);
    const restarts = () => Number(require("node:child_process").execFileSync("systemctl", ["show", "pierhead", "-P", "NRestarts"]));
    // systemd keeps the count of a version before when it merges this start with a restart that was due.
    const known = restarts();
    const isDown = () => restarts() > known + 2;
    (async () => {
      while (!(await ask())) {
        if (Date.now() > until || isDown()) process.exit(1);
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
    })();' "$address"
}

uninstall() {
  systemctl disable --quiet --now pierhead-backup.timer 2>/dev/null || true
  systemctl disable --quiet --now pierhead.service 2>/dev/null || true
  # Agents that run as processes of the service's user outlive the server.
  for signal in TERM KILL; do
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      left=$(ps -u pierhead -o pid= 2>/dev/null || true)
      [ -n "$left" ] || break 2
      # shellcheck disable=SC2086
      kill -s "$signal" $left 2>/dev/null || true
      sleep 1
    done
  done
  rm -f "$units/pierhead.service" "$units/pierhead-backup.service" "$units/pierhead-backup.timer" "$command" "$limits"
  systemctl daemon-reload
  systemctl reset-failed 'pierhead*' 2>/dev/null || true
  rm -rf "$prefix/releases" "$prefix/node" "$prefix/current" "$prefix/install.sh" "$prefix"/*.new
  [ ! -d "$prefix" ] || rmdir "$prefix" 2>/dev/null || say "$prefix has files that the installer did not write: they stay"
  if [ "$purge" = yes ]; then
    rm -rf "$settings" "$data" "$backups"
    userdel pierhead 2>/dev/null || true
    say "Pierhead is removed, with its data. Containers of agents: docker ps --filter label=pierhead.dev/installation"
  else
    say "Pierhead is removed. $settings, $data and $backups are left: a new installation uses them, --purge deletes them."
  fi
}

# At the end, so that a script that was cut off while it was downloaded does nothing.
main "$@"; exit
