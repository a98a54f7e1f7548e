// The menu for everybody.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import generic from '../../generic/generic.module.css'
import { Ordered } from '../../generic/ordered.tsx'
import { isLink, type Menu, type MenuItem, readMenu } from '../../generic/ui-contents.ts'
import { useAdded } from '../../kit/added.ts'
import { Button } from '../../kit/buttons.tsx'
import { TextField } from '../../kit/fields.tsx'
import { Icon } from '../../kit/icons.tsx'
import { MessagesContext } from '../../kit/messages.ts'
import { classByAlias } from '../../shared/menu.ts'
import { moved } from '../../shared/positions.ts'
import { t } from '../../texts.ts'
import { Editor } from './editor.tsx'
import look from './interface.module.css'
import { ClassChooser } from './selection.tsx'

type Section = Menu['sections'][number]

export const MenuEditor = () => (
  <Editor
    component="menu"
    understand={readMenu}
    form={(content, change) => <Sections content={content} onChange={change} />}
    preview={(content) => <Preview content={content} />}
  />
)

function Sections({ content, onChange }: { content: Menu; onChange: (content: Menu) => void }) {
  const { sections } = content
  const set = (next: Section[]) => onChange({ sections: next })
  const nameOf = ({ title }: Section, n: number) => title || t('interface.section', { number: n + 1 })
  const [list, add] = useAdded<HTMLOListElement>(sections.length)
  return (
    <>
      <Ordered
        listRef={list}
        label={t('interface.sections')}
        items={sections}
        keyOf={(_, n) => `${n}`}
        nameOf={(section) => nameOf(section, sections.indexOf(section))}
        onMove={(from, to) => set(moved(sections, from, to))}
      >
        {(section, n) => {
          const name = nameOf(section, n)
          const put = (changed: Partial<Section>) => set(sections.with(n, { ...section, ...changed }))
          const { items } = section
          return (
            <div className={look.block}>
              <div className={look.line}>
                <h2>{name}</h2>
                <Button
                  look="quiet"
                  icon="trash-2"
                  aria-label={t('remove-one', { name })}
                  onPress={() => set(sections.toSpliced(n, 1))}
                />
              </div>
              <TextField
                name={`sections.${n}.title`}
                label={t('interface.section.title')}
                value={section.title}
                maxLength={100}
                onChange={(title) => put({ title })}
              />
              <div className={look.items}>
                <Ordered
                  label={t('interface.items', { name })}
                  items={items}
                  keyOf={(_, at) => `${at}`}
                  nameOf={(item) => item.label ?? item.class ?? `${item.link}`}
                  onMove={(from, to) => put({ items: moved(items, from, to) })}
                >
                  {(item, at) => (
                    <Item
                      item={item}
                      name={`sections.${n}.items.${at}`}
                      onChange={(next) => put({ items: items.with(at, next) })}
                      onRemove={() => put({ items: items.toSpliced(at, 1) })}
                    />
                  )}
                </Ordered>
              </div>
              <ClassChooser
                name={`sections.${n}.add-class`}
                label={t('interface.item.class.add')}
                onChoose={({ alias }) => put({ items: [...items, { class: `${alias}` }] })}
              />
              <NewLink name={`sections.${n}.add-link`} onAdd={(item) => put({ items: [...items, item] })} />
            </div>
          )
        }}
      </Ordered>
      <div>
        <Button
          icon="plus"
          onPress={() => {
            add()
            set([...sections, { title: '', items: [] }])
          }}
        >
          {t('interface.section.add')}
        </Button>
      </div>
    </>
  )
}

function Item({
  item,
  name,
  onChange,
  onRemove,
}: {
  item: MenuItem
  name: string
  onChange: (item: MenuItem) => void
  onRemove: () => void
}) {
  const place = item.class === undefined ? `${item.link}` : t('interface.item.class')
  const itemName = item.class ?? item.label ?? place
  return (
    <div className={look.block}>
      <div className={look.line}>
        <span>
          {item.class === undefined ? item.label : <ClassName alias={item.class} />}{' '}
          <span className={look.quiet}>{place}</span>
        </span>
        <Button look="quiet" icon="trash-2" aria-label={t('remove-one', { name: itemName })} onPress={onRemove} />
      </div>
      {item.class !== undefined && (
        <TextField
          name={`${name}.label`}
          label={t('interface.item.label')}
          hint={t('interface.item.label.hint')}
          value={item.label ?? ''}
          maxLength={100}
          onChange={(label) => onChange({ ...item, label: label || undefined })}
        />
      )}
    </div>
  )
}

function ClassName({ alias }: { alias: string }) {
  const { data } = useQuery(classByAlias(alias))
  return data === null ? t('interface.class.gone', { alias }) : `${data?.name ?? alias}`
}

/** A link is taken when both its parts are right. */
function NewLink({ name, onAdd }: { name: string; onAdd: (item: MenuItem) => void }) {
  const [link, setLink] = useState('')
  const [label, setLabel] = useState('')
  const [isAsked, setIsAsked] = useState(false)
  const isRight = isLink(link.trim())
  const add = () => {
    setIsAsked(true)
    if (!isRight || !label.trim()) return
    onAdd({ link: link.trim(), label: label.trim() })
    setLink('')
    setLabel('')
    setIsAsked(false)
  }
  const wrong = {
    ...(isAsked && !isRight && { [`${name}.link`]: t('interface.item.link.wrong') }),
    ...(isAsked && !label.trim() && { [`${name}.label`]: t('required') }),
  }
  return (
    <MessagesContext value={wrong}>
      <div className={look.two}>
        <TextField
          name={`${name}.link`}
          label={t('interface.item.link')}
          hint={t('interface.item.link.hint')}
          isRequired
          value={link}
          onChange={setLink}
        />
        <TextField
          name={`${name}.label`}
          label={t('interface.item.label')}
          isRequired
          maxLength={100}
          value={label}
          onChange={setLabel}
        />
      </div>
      <div>
        <Button onPress={add}>{t('interface.item.link.add')}</Button>
      </div>
    </MessagesContext>
  )
}

function Preview({ content }: { content: Menu }) {
  return (
    <div className={look.menu}>
      {content.sections.length === 0 && <p className={generic.none}>{t('interface.sections.none')}</p>}
      {content.sections.map(({ title, items }, n) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: sections have no name of their own
        <div key={n}>
          {title && <h3>{title}</h3>}
          <ul>
            {items.map((item, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: items neither
              <li key={at}>
                <Icon
                  name={
                    item.class !== undefined
                      ? 'file-text'
                      : item.link?.startsWith('/')
                        ? 'chevron-right'
                        : 'external-link'
                  }
                />
                <span>{item.label ?? (item.class !== undefined && <ClassName alias={item.class} />)}</span>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </div>
  )
}
