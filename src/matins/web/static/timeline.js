// The timeline: one tab stop, arrows between marks and lanes, and what a mark says in a live line below.
import { $, $$, on, swapped } from './dom.js';

const lanes = () => $$('.timeline [data-lane]').map((lane) => $$('a', lane)).filter((marks) => marks.length);
let chosen, placed;

function ready() {
  const all = lanes().flat();
  const one = all.find((mark) => mark.id === chosen) ?? all.find((mark) => mark.dataset.future) ?? all[0];
  all.forEach((mark) => mark.setAttribute('tabindex', mark === one ? '0' : '-1'));
  const scroller = $('.timeline-scroll');
  if (scroller && scroller !== placed) { placed = scroller; scroller.scrollLeft = $('.now-line').getBoundingClientRect().x - scroller.getBoundingClientRect().x - scroller.clientWidth * 0.4; }
}
swapped(ready);

function select(mark) {
  if (!mark) return;
  chosen = mark.id;
  ready();
  mark.focus();
}
on('focusin', (event) => {
  const mark = event.target.closest?.('.timeline a');
  if (mark) { chosen = mark.id; $('#said').textContent = mark.getAttribute('aria-label'); }
});
const middle = (mark) => { const box = mark.getBoundingClientRect(); return box.x + box.width / 2; };
on('keydown', (event) => {
  const mark = event.target.closest?.('.timeline a');
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!mark || !step) return;
  event.preventDefault();
  const all = lanes(), lane = all.findIndex((marks) => marks.includes(mark));
  if (step[1]) { const marks = [...all[lane]].sort((a, b) => middle(a) - middle(b)); select(marks[marks.indexOf(mark) + step[1]]); return; }
  const other = all[lane + step[0]];
  if (other) select(other.reduce((best, each) => (Math.abs(middle(each) - middle(mark)) < Math.abs(middle(best) - middle(mark)) ? each : best)));
});
