# Sourced by what tests pages: a headless Chromium in $CHROMIUM and playwright-core, which drives it, in $NODE_PATH. What is not there is installed
# by name: Chromium from Debian's packages, as playwright would fetch a build of its own from elsewhere.
if ! command -v chromium >/dev/null; then
  echo "installing chromium"
  sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
CHROMIUM=$(command -v chromium)
pages=${PAGES_NODE:-${XDG_CACHE_HOME:-$HOME/.cache}/firstbit-pages}
[ -d "$pages/node_modules/playwright-core" ] || npm install --silent --no-fund --no-audit --prefix "$pages" playwright-core@1.65.1
NODE_PATH=$pages/node_modules
export CHROMIUM NODE_PATH
