import assert from 'node:assert/strict'
import test from 'node:test'
import { agentName, browserName } from '../src/screens/me/browser-name.ts'

test('browsers are called as people call them', () => {
  const of = (rest: string) => browserName(`Mozilla/5.0 ${rest}`)
  assert.equal(of('(X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0'), 'Firefox, Linux')
  assert.equal(
    of('(Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36 Edg/156.0'),
    'Edge, Windows',
  )
  assert.equal(
    of('(iPhone; CPU iPhone OS 20_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/20.0 Safari/604.1'),
    'Safari, iPhone',
  )
  assert.equal(of('(something)'), 'Mozilla/5.0 (something)')
})

test('agents have the name of their connector, and their own in quotation marks', () => {
  assert.equal(agentName('Assistant', 'Scribe 1.2'), 'Assistant (“Scribe 1.2”)')
  assert.equal(agentName('Assistant', 'Mozilla/5.0 (X11)'), 'Assistant (“Mozilla/5.0 (X11)”)')
  assert.equal(agentName('Assistant', 'x”) Bank (“y"'), "Assistant (“x') Bank ('y'”)")
  assert.equal(agentName('Assistant', 'Assistant'), 'Assistant')
  assert.equal(agentName('Assistant', ''), 'Assistant')
})
