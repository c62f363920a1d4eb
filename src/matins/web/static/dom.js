// What every module needs.
const root = document.body.dataset.root;
export const address = (path) => root + path; // the same as in templates
export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
export const on = (type, listener, root = document) => root.addEventListener(type, listener);
export const swapped = (listener) => { on('htmx:after:swap', listener); listener(); };

let timer;
export function toast(text) {
  const box = $('#toast');
  box.textContent = text;
  box.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => { box.hidden = true; }, 4000);
}

// A part of a page, parsed without running anything in it; nothing when the server refuses it.
export async function fragment(path) {
  const response = await fetch(path, { headers: { 'HX-Request': 'true' } });
  return response.ok ? new DOMParser().parseFromString(await response.text(), 'text/html').body : null;
}

// Cookies of the page itself: the viewer's zone and theme.
export function remember(name, value) {
  document.cookie = `${name}=${encodeURIComponent(value)}; Path=${root || '/'}; SameSite=Strict; Max-Age=31536000`;
}
