-- The normalizations nfkc and username. Their keys go by ICU alone: no locale has a say.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create temporary view examples (what, one, other) as values
    ('case', 'Ada', 'aDA'),
    ('case beyond ASCII', 'ÅSA', 'åsa'),
    ('full case folding', 'STRASSE', 'straße'),
    ('final sigma', 'ΟΔΟΣ', 'οδος'),
    ('full width', 'ＡＤＡ', 'ada'),
    ('ligature', 'ﬁsh', 'fish'),
    ('composed or not', E'A\u030asa', 'åsa'),
    ('circled', 'ⓐⓓⓐ', 'ada'),
    ('mathematical', E'\U0001d4aa\U0001d4b9\U0001d4aa', 'odo'),
    ('zero-width space', E'ad\u200ba', 'ada'),
    ('zero-width joiner', E'a\u200dd\u200da', 'ada'),
    ('byte order mark', E'\ufeffada', 'ada'),
    ('soft hyphen', E'a\u00adda', 'ada'),
    ('variation selector', E'ada\ufe0f', 'ada'),
    ('direction mark', E'\u202eada\u202c', 'ada'),
    ('Turkish dotless i', 'ırıs', 'iris'),
    ('white space at the ends', E' \t\u00a0\u3000ada\u2003\u2028\u0085\r\n', 'ada'),
    ('white space behind what is dropped', E'\u200b ada \u200b', 'ada'),
    ('only what is dropped', E'\u200b\u00ad \u2060', ''),
    ('Cyrillic', 'раураl', 'paypal'),
    ('mixed scripts', E'p\u0430yp\u0430l', 'paypal'),
    ('Greek', 'αdα', 'ada'),
    ('digits', 'user1', 'userl'),
    ('rn', 'modem', 'modern'),
    ('vertical bar', 'pau|', 'paul'),
    ('white space inside', 'a da', 'ada'),
    ('two spaces inside', 'a  da', 'a da'),
    ('dot', 'a.da', 'ada'),
    ('accent', 'adá', 'ada'),
    ('capital I for l', 'paypaI', 'paypal'),
    ('doubled', 'adaa', 'ada');
select what, bloom_normalize(one, 'nfkc') = bloom_normalize(other, 'nfkc') as nfkc,
       bloom_normalize(one, 'username') = bloom_normalize(other, 'username') as username
from examples;
select what, bloom_normalize(one, 'nfkc') as nfkc, bloom_normalize(one, 'username') as username
from examples;

-- Filters and values answer accordingly: added as one, checked as the other.
select bloom_create('by_nfkc', 1000, normalization => 'nfkc', source => 'select one from examples');
select bloom_create('by_username', 1000, normalization => 'username', source => 'select one from examples');
create temporary table kept as
select bloom_agg(one, 1000, 0.0001, 'nfkc') as nfkc, bloom_agg(one, 1000, 0.0001, 'username') as username
from examples;
select what from examples, kept
where (bloom_normalize(one, 'nfkc') = bloom_normalize(other, 'nfkc')
       and not (bloom_might_contain('by_nfkc', other) and nfkc @> other))
   or (bloom_normalize(one, 'username') = bloom_normalize(other, 'username')
       and not (bloom_might_contain('by_username', other) and username @> other));
select bloom_might_contain('by_username', 'nobody') as nobody,
       bloom_might_contain_many('by_username', '{PAYPAL,modern,nobody,null}') as many,
       bloom_add('by_username', 'КАТЯ') as katja, bloom_add('by_username', 'катя') as again,
       bloom_add_many('by_username', '{wilma,vvilrna,ｗｉｌｍａ}') as many_added;
select filter, status, normalization, note from bloom_filters order by filter::text;
select normalization, items > 15 as items from kept,
       lateral (select * from bloom_value_info(nfkc) union all select * from bloom_value_info(username)) i;

-- Nothing is of another normalization than it says.
\set VERBOSITY terse
select bloom_merge('by_nfkc', bloom_agg_chunks('ada', 256, 'lower'));
select bloom_merge('by_nfkc', bloom_agg_chunks('ada', 256, 'username'));
select nfkc | username from kept;
select bloom_merge('by_username', bloom_agg_chunks('eve', 256, 'username')) > 0 as merged,
       bloom_might_contain('by_username', 'EVE') as eve;
select bloom_create('bad', 1000, normalization => 'NFKC');
select bloom_agg('ada', 100, 0.01, 'user') from kept;
select bloom_normalize('ada', repeat('n', 100));
\set VERBOSITY default
select bloom_normalize('ada', 'nfc');
-- The third byte of the header is the normalization, the last four repeat it.
select substring(nfkc::bytea, 4, 1) as nfkc, substring(nfkc::bytea, 13, 4) as marked,
       substring(username::bytea, 4, 1) as username, substring(username::bytea, 13, 4) as marked
from kept;
\set VERBOSITY terse
select set_byte(nfkc::bytea, 3, 1)::bloomfilter from kept;
select set_byte(nfkc::bytea, 3, 3)::bloomfilter from kept;
select set_byte(nfkc::bytea, 3, 4)::bloomfilter from kept;
\set VERBOSITY default

-- The type of an item and its collation make no difference.
create domain pg_temp.username as text;
select bloom_add('by_username', 'ＭＩＲＡ'::varchar), bloom_might_contain('by_username', 'mira'::name),
       bloom_might_contain('by_username', 'MIRA'::char(10)),
       bloom_might_contain('by_username', 'rnira'::pg_temp.username),
       bloom_might_contain('by_username', 'MIRA' collate "C"),
       bloom_normalize('ÅSA' collate "C", 'nfkc'), bloom_normalize(null, 'nfkc');

-- Long items; U+FDFA becomes 18 characters.
select bloom_add('by_nfkc', repeat('Ｅ', 100000)), bloom_might_contain('by_nfkc', repeat('e', 100000)),
       bloom_add('by_username', repeat('m', 60)), bloom_might_contain('by_username', repeat('rn', 60)),
       length(bloom_normalize(repeat(E'\ufdfa', 10000), 'nfkc')) as grown;

-- ASCII is short-cut: its key is made character by character. So it must be context-free, and the
-- short cut must agree with ICU: alone, in twos, and in twos between others.
create temporary table pairs as
select pair from generate_series(1, 127) i, generate_series(1, 127) j,
       lateral (values (chr(i) || chr(j)), ('x' || chr(i) || chr(j) || 'x'), (chr(i))) p (pair);
select count(*) filter (where bloom_normalize(pair, 'nfkc') <> lower(pair collate "C") and pair ~ '^\S*$') as nfkc,
       count(*) filter (where bloom_normalize(pair, 'username') <> replace(replace(replace(
           translate(lower(pair collate "C"), '01|`', 'oll'''), 'm', 'rn'), '"', ''''''), '%', 'o/o')
           and pair ~ '^\S*$') as username
from pairs;
select normalization, one.bits = other.bits as same_bits
from unnest(array['nfkc', 'username']) normalization,
     lateral (select substring(bloom_agg_chunks(pair, 16384, normalization)::bytea, 17) as bits from pairs) one,
     lateral (select substring(bloom_agg_chunks(bloom_normalize(pair, normalization), 16384, 'none')::bytea, 17)
              as bits from pairs) other;

-- A key is its own key: of every character, and of a hundred thousand texts of three random ones.
create temporary table texts as
select chr(i) as item from generate_series(1, 1114111) i where i not between 55296 and 57343
union all
select chr(1 + a % 55295) || chr(1 + b % 9000) || chr(1 + c % 1500)
from generate_series(1, 100000) i, lateral (select hashint4(i) & 65535, hashint4(-i) & 65535,
                                                   hashint4(i * 7) & 65535) t (a, b, c);
select normalization, count(*) filter (where bloom_normalize(key, normalization) <> key) as unsettled
from texts, unnest(array['nfkc', 'username']) normalization,
     lateral (select bloom_normalize(item, normalization) as key) k group by normalization order by 1;
drop table by_nfkc, by_username;

-- More than 128 marks in a row do not count, since ordering them takes quadratic time that cannot be
-- canceled. Invisible characters do not end the row, a letter does.
select what, length(bloom_normalize(item, 'nfkc')) as nfkc, length(bloom_normalize(item, 'username')) as username
from (values ('many', 'b' || repeat(U&'\0301\0323', 200000)),
             ('mapped to two', 'b' || repeat(U&'\0344\0323', 200000)),
             ('with invisible ones', 'b' || repeat(U&'\0301\200B\0323', 200000)),
             ('ordered as look-alikes', 'b' || repeat(U&'\0902\0323', 200000)),
             ('of several letters', repeat('b' || repeat(U&'\0301\0323', 64), 3)),
             ('one more', 'b' || repeat(U&'\0301\0323', 64) || U&'\0301')) names (what, item);
select bool_and(bloom_normalize(key, normalization) = key) as own_keys
from (select normalization, bloom_normalize(item, normalization) as key
      from (values ('nfkc'), ('username')) n (normalization),
           (values ('b' || repeat(U&'\0301\0323', 100)), (repeat(U&'\0344\0323\0902', 100)),
                   (repeat(U&'\0F73\0345\0F71', 100) || 'x'), (repeat(U&'\1D165\0301\FF9E', 100))) i (item)) k;

-- Also where a short item has few characters, each of which becomes several marks.
select normalization, count(*) filter (where bloom_normalize(key, normalization) <> key) as not_own
from unnest(array['nfkc', 'username']) normalization, generate_series(30, 130) marks,
     unnest(array[U&'\0344', U&'\0F77', U&'\0F73', U&'\0CCB']) mark,
     lateral (select bloom_normalize('a' || repeat(mark, marks), normalization) as key) k
group by normalization order by 1;
-- The marks of a character that is composed count as if it were not.
select bloom_normalize(item, 'nfkc') = bloom_normalize(normalize(item, nfd), 'nfkc') as same
from (values ('a' || repeat(U&'\0344', 100))) i (item);
