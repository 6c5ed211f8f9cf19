// Looks at the built documentation site in a real browser: navigation, search, both colour schemes, narrow screens, and that nothing
// is loaded from elsewhere. `docs/build --look` runs it.
//
// usage: node site.mjs SITE CHROMIUM PICTURES

import { createServer } from 'node:http';
import { readFile, readdir } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import { chromium } from 'playwright-core';

const [site, executablePath, pictures] = process.argv.slice(2);
const KINDS = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.png': 'image/png' };
const complaints = [];

const server = createServer(async (request, answer) => {
  const path = normalize(decodeURIComponent(new URL(request.url, 'http://x').pathname));
  try {
    const bytes = await readFile(join(site, path.endsWith('/') ? `${path}index.html` : path));
    answer.writeHead(200, { 'content-type': KINDS[extname(path)] ?? 'application/octet-stream' }).end(bytes);
  } catch {
    answer.writeHead(404).end();
  }
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const base = `http://127.0.0.1:${server.address().port}/`;
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });

function check(holds, what) {
  if (!holds) throw new Error(what);
}

async function open(options) {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })).newPage();
  page.setDefaultTimeout(15_000);
  page.on('console', (message) => message.type() === 'error' && complaints.push(`${page.url()}: ${message.text()}`));
  page.on('pageerror', (error) => complaints.push(`${page.url()}: ${error.message}`));
  page.on('request', (request) => {
    const local = request.url().startsWith(base) || request.url().startsWith('data:');
    if (!local) complaints.push(`${page.url()} loads ${request.url()}`);
  });
  return page;
}

/** What the search shows first for some words. */
async function found(page, words) {
  await page.goto(`${base}index.html`);
  await page.keyboard.press('s');
  await page.locator('#mdbook-searchbar').pressSequentially(words);
  const first = page.locator('#mdbook-searchresults li').first();
  await first.waitFor();
  return (await page.locator('#mdbook-searchresults li').allInnerTexts()).slice(0, 5).join('\n');
}

try {
  const page = await open();
  await page.goto(`${base}index.html`);
  await page.locator('nav').getByRole('link', { name: 'Make a deadline hold' }).first().click();
  await page.waitForURL('**/deadlines.html');
  check((await page.locator('h1').last().innerText()).includes('eadline'), 'the entry leads to its page');
  await page.keyboard.press('ArrowRight');
  await page.waitForURL('**/limits.html');

  for (const [words, place] of [['checkpoint_limit_bytes', 'Settings'], ['benched', 'enched'], ['worker install', 'install'],
    ['PRI-HISTORY', 'PRI-HISTORY'], ['Idempotency-Key', 'API'], ['map submit bag', 'ython']]) {
    const results = await found(page, words);
    check(results.includes(place), `the search for ${words} shows ${place}: ${results}`);
  }
  await page.screenshot({ path: join(pictures, 'search.png') });

  for (const colorScheme of ['light', 'dark']) {
    const look = await open({ colorScheme });
    await look.goto(`${base}policies.html`);
    const dark = await look.evaluate(() => getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).every((part) => part < 80));
    check(dark === (colorScheme === 'dark'), `the site is ${colorScheme} where the system is`);
    await look.locator('img[src*="policy-deskgrid"]').first().scrollIntoViewIfNeeded();
    await look.screenshot({ path: join(pictures, `${colorScheme}.png`) });
    for (const name of ['index', 'owner', 'configs', 'deskgrid-worker']) {
      await look.goto(`${base}${name}.html`);
      // Long lines of code scroll sideways, and mdBook does not let the keyboard reach them; everything else is to hold.
      const axe = new AxeBuilder({ page: look }).include('main').withTags(['wcag2a', 'wcag2aa']).disableRules(['scrollable-region-focusable']);
      const { violations } = await axe.analyze();
      const told = violations.map((rule) => `${rule.id}: ${rule.nodes.slice(0, 2).map((node) => node.html.slice(0, 160)).join(' | ')}`);
      check(violations.length === 0, `${name} is accessible in ${colorScheme}: ${told.join('\n')}`);
    }
  }

  const narrow = await open({ viewport: { width: 360, height: 740 } });
  for (const name of (await readdir(site)).filter((name) => name.endsWith('.html') && !['toc.html', 'print.html'].includes(name))) {
    await narrow.goto(base + name);
    const wide = await narrow.evaluate(() => document.documentElement.scrollWidth);
    check(wide <= 360, `${name} fits a narrow screen: it is ${wide} pixels wide`);
    const broken = await narrow.evaluate(() => [...document.images].filter((one) => one.complete && !one.naturalWidth).map((one) => one.src));
    check(broken.length === 0, `${name} shows its pictures: ${broken}`);
  }
  await narrow.goto(`${base}configs.html`);
  await narrow.screenshot({ path: join(pictures, 'narrow.png') });

  check(complaints.length === 0, complaints.join('\n'));
  console.log(`== the site is as it should be in a browser; pictures in ${pictures}`);
} finally {
  await browser.close();
  server.close();
}
