#!/bin/sh
# Chromium and PostgreSQL, which the tests of the web apps need: found here, or installed where that is allowed.
missing="chromium-headless-shell"  # without a window of its own: half the work, and the pages are the same
for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" >/dev/null 2>&1 && missing=""
done
command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing $missing for the tests of the web apps"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null \
        && exit 0
fi
echo "not here, and not to be installed from here: $missing; the tests that need them will say that they did not run"
