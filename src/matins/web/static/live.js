// One stream of names per visible tab. What it names, the page fetches again: itself, or the parts that show it.
import { $, $$, address, on, swapped } from './dom.js';

const SILENCE_MS = 10_000, PAUSE_MS = 1000;
let source, heard = Date.now(), last = 0, waiting, broken = false, opened = false;
const fetched = new Map(), planned = new Map(); // by part

function refresh() {
  clearTimeout(waiting);
  waiting = setTimeout(() => { last = Date.now(); document.body.dispatchEvent(new CustomEvent('matins:refresh')); }, Math.max(0, last + PAUSE_MS - Date.now()));
}

function renew(part, at_once = false) {
  if (planned.has(part.id) && !at_once) return;
  clearTimeout(planned.get(part.id));
  const pause = at_once ? 0 : Math.max(0, (fetched.get(part.id) ?? 0) + part.dataset.every * PAUSE_MS - Date.now());
  planned.set(part.id, setTimeout(() => {
    planned.delete(part.id);
    fetched.set(part.id, Date.now());
    document.getElementById(part.id)?.dispatchEvent(new CustomEvent('matins:part'));
  }, pause));
}
on('matins:refresh', () => $$('[data-part]').forEach((part) => renew(part, true)));
const listens = () => document.body.dataset.names || $('[data-part]');

function alive() {
  heard = Date.now();
  if (!broken) return;
  broken = false;
  document.body.classList.remove('stale');
  $('#stale').hidden = true;
}

function open() {
  if (source || document.hidden || !listens()) return;
  source = new EventSource(address('/ui/stream'));
  source.onopen = () => { alive(); if (document.body.dataset.names) refresh(); else if (opened) $$('[data-part]').forEach((part) => renew(part)); opened = true; };
  source.addEventListener('ping', alive);
  source.onmessage = (event) => {
    alive();
    const names = JSON.parse(event.data), wanted = document.body.dataset.names.split(' ');
    if (wanted.includes('*') || names.some((name) => wanted.includes(name))) refresh();
    $$('[data-part]').filter((part) => names.some((name) => part.dataset.part.split(' ').includes(name))).forEach((part) => renew(part));
  };
  source.onerror = () => { if (source?.readyState === EventSource.CLOSED) { shut(); setTimeout(open, 2000); } };
}
function shut() { source?.close(); source = null; }

on('visibilitychange', () => { if (document.hidden) shut(); else { heard = Date.now(); open(); } });
on('pagehide', shut, window);

// Data that may be old is never shown as if it were new.
setInterval(() => {
  if (document.hidden || !listens() || Date.now() - heard < SILENCE_MS || broken) return;
  broken = true;
  document.body.classList.add('stale');
  const clock = new Date(heard).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
  $('#stale').textContent = navigator.onLine ? `Not live since ${clock}: Matins does not answer. If it has stopped, start it: matins up`
    : `Offline since ${clock}. The page is renewed when the network is back.`;
  $('#stale').hidden = false;
}, 1000);
open();

// What the answer of the server cannot give: an error, or a page of the past.
on('htmx:config:request', (event) => {
  const { request } = event.detail.ctx;
  request.headers['X-Matins-CSRF'] = '1';
  const tag = tags.get(event.detail.ctx.sourceElement?.id);
  if (tag) request.headers['If-None-Match'] = tag;
});
const tags = new Map(); // of what is shown, by the element that is fetched again
const own = (ctx) => ctx.sourceElement?.id === 'live' || ctx.sourceElement?.matches?.('[data-part]');
on('htmx:before:swap', (event) => {
  const { ctx } = event.detail;
  const status = ctx.response?.raw?.status ?? ctx.response?.status ?? 200;
  if (own(ctx) && status !== 200) {
    event.preventDefault();
    if (status === 401) location.reload();
  }
});
on('htmx:after:request', (event) => {
  const { ctx } = event.detail;
  const tag = ctx.response?.headers?.get?.('ETag');
  if (tag && own(ctx)) tags.set(ctx.sourceElement.id, tag);
});
on('htmx:after:swap', () => {
  for (const [id, tag] of tags) { const element = document.getElementById(id); if (element) element.dataset.tag = tag; }
  const count = $('#decide')?.dataset.count, box = $('#waiting');
  if (count !== undefined && box) { box.textContent = count; box.hidden = count === '0'; }
});

// What a person opened stays open when the page is renewed.
window.htmx?.registerExtension('matins', {
  htmx_before_morph_attr: (element, detail) => !(detail.attrName === 'open' || detail.attrName === 'data-tag'
    || (element.matches('.approval') && detail.attrName === 'class') || (element.matches('.approval h2 button, [data-arm]') && ['aria-expanded', 'class'].includes(detail.attrName))),
});

// Relative times tick here; the server says the same.
const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
function length(seconds) {
  let left = Math.round(seconds);
  const parts = [];
  for (const [size, unit] of UNITS) { const amount = Math.floor(left / size); left %= size; if (amount) parts.push(`${amount} ${unit}`); }
  return parts.slice(0, parts.length > 1 && !parts[0].endsWith('min') ? 2 : 1).join(' ') || '0 s';
}
function tick() {
  $$('time[data-rel]').forEach((each) => {
    const seconds = Math.round((Date.parse(each.dateTime) - Date.now()) / 1000);
    const text = seconds === 0 ? 'now' : seconds > 0 ? `in ${length(seconds)}` : `${length(-seconds)} ago`;
    if (each.textContent !== text) each.textContent = text;
  });
}
setInterval(tick, 1000);
swapped(tick);
