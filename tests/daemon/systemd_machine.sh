# A machine of its own for tests: systemd is process 1 in new namespaces, with units of the test only. What is written
# to /etc, /var and /run is in memory.
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd /run/over
for folder in etc var; do
  mkdir -p "/run/over/$folder" "/run/over/$folder.work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=/run/over/$folder,workdir=/run/over/$folder.work" "/$folder"
done
mount -t tmpfs tmpfs /etc/systemd/system
# Without these, systemd would empty /tmp and change settings of the kernel.
mount -t tmpfs tmpfs /usr/lib/systemd/system-generators
mount -t tmpfs tmpfs /usr/lib/systemd/system
for target in sysinit basic multi-user shutdown only; do
  printf '[Unit]\nDescription=%s\n' "$target" > "/usr/lib/systemd/system/$target.target"
done
cat > /etc/systemd/system/user-manager.service <<UNIT
[Service]
Type=notify
User=daemon
Environment=XDG_RUNTIME_DIR=/run/user/1 HOME=/run/user/1
Delegate=yes
ExecStartPre=+/bin/mkdir -p /run/user/1
ExecStartPre=+/bin/chown daemon /run/user/1
ExecStart=/lib/systemd/systemd --user
UNIT
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit=only.target --log-target=console
