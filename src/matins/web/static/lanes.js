// The lanes of Now: what a part of a dense lane holds, a click on it, and a drag over a time to look closer.
import { $, $$, on } from './dom.js';

const clock = (at) => new Date(at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone: document.body.dataset.zone });
const chart = (event) => event.target.closest?.('.lane-list .lane-chart');
let from = null;

function at(lane, event) {
  const box = lane.getBoundingClientRect(), { start, end } = lane.dataset;
  const part = Math.min(Math.max((event.clientX - box.x) / box.width, 0), 1);
  return Number(start) + part * (end - start);
}
function bucket(lane, event) {
  const size = (lane.dataset.end - lane.dataset.start) / 96, index = Math.floor((at(lane, event) - lane.dataset.start) / size);
  return { index, since: Number(lane.dataset.start) + index * size, until: Number(lane.dataset.start) + (index + 1) * size };
}
function go(base, since, until) {
  const target = new URL(base, location.href);
  for (const other of ['range', 'before']) target.searchParams.delete(other);
  target.searchParams.set('since', new Date(since).toISOString());
  target.searchParams.set('until', new Date(until).toISOString());
  location.href = target;
}

on('pointermove', (event) => {
  const lane = chart(event);
  if (!lane?.dataset.good || from) return;
  const { index, since, until } = bucket(lane, event);
  const good = lane.dataset.good.split(' ')[index] ?? 0, bad = lane.dataset.bad.split(' ')[index] || 0;
  lane.dataset.tip = `${clock(since)} to ${clock(until)}\n${since > Date.now() ? `${good} planned` : `${good} without trouble, ${bad} failed`}`;
});
on('pointerdown', (event) => {
  const lane = chart(event);
  if (lane && event.button === 0 && event.pointerType === 'mouse') from = { lane, x: event.clientX, at: at(lane, event) };
});
on('pointerup', (event) => {
  const begun = from;
  from = null;
  const lane = begun?.lane ?? chart(event);
  if (!lane) return;
  if (begun && Math.abs(event.clientX - begun.x) > 8) {
    const [since, until] = [begun.at, at(begun.lane, event)].sort((a, b) => a - b);
    go(location.href, since, until);
    return;
  }
  const mark = event.target.closest?.('[data-href]');
  if (mark) location.href = mark.dataset.href;
  else if (lane.dataset.buckets && lane.dataset.good) { const { since, until } = bucket(lane, event); go(lane.dataset.buckets, since, until); }
});
