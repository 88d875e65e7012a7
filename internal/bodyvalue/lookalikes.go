package bodyvalue

import "sync"

// lookalikes are the characters that collations of databases take for others, beyond what NFKD and case folding leave
// equal, with these: an account bob is found by bøb, b🅞b and b\u0366b, and はは by ハハ. Decimal digits of other scripts are
// left out.
//
// Of ASCII they are those whose weights in MariaDB 10.11 are the weights of one or two characters of it, by the collations
// utf8mb4_uca1400_ai_ci (the default of MariaDB from 11.5 on; MySQL's utf8mb4_0900_ai_ci is an older version of it),
// utf8mb4_unicode_520_ci and utf8mb4_unicode_ci; and those that are invisible. Of other letters they are those of scripts in
// use, with one character for all that the same collations take for one.
var lookalikes = sync.OnceValue(func() map[rune]string {
	others := map[rune]string{}
	for _, table := range [][]alike{lookalikesOf, lookalikesOfLetters} {
		for _, same := range table {
			for _, r := range same.characters {
				others[r] = same.text
			}
		}
	}
	return others
})

// alike are characters that are taken for a text.
type alike struct{ text, characters string }

// invisible are characters that nothing shows, beside format characters. Frameworks drop them at the ends of texts, as
// Laravel 13 does.
const invisible = "\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0\U0001d159"

// lookalikesOf are the characters by their ASCII. Those of the empty text have no weight at all.
var lookalikesOf = []alike{
	{"", invisible},
	{"", "\u0640\u06de\u07fa\u0824\u0828\u180a\u1cd3\u1cf2\u1cf3\ufc5e\ufc5f\ufc60\ufc61\ufc62\ufc63\ufcf2\ufcf3\ufcf4" +
		"\ufe70\ufe71\ufe72\ufe73\ufe74\ufe76\ufe77\ufe78\ufe79\ufe7a\ufe7b\ufe7c\ufe7d\ufe7e\ufe7f"},
	{"0", "\u0c78\u0f33\u17f0\u24ff\u3007\U0001018a\U00016e80\U0001d2e0\U0001f10b\U0001f10c"},
	{"1", "\u09f4\u0c79\u0c7c\u0f2a\u1369\u17f1\u19da\u24f5\u2776\u2780\u278a\u3021\U00010107\U00010142\U00010158" +
		"\U00010159\U0001015a\U000102e1\U00010320\U000103d1\U00010858\U00010879\U000108a7\U000108fb\U00010916\U000109c0" +
		"\U00010a40\U00010a7d\U00010a9d\U00010aeb\U00010b58\U00010b78\U00010ba9\U00010cfa\U00010e60\U00010f1d\U00010f51" +
		"\U00010fc5\U00011052\U000111e1\U00011c5a\U00012415\U0001241e\U0001242c\U00012434\U0001244f\U00012458\U00016e81" +
		"\U00016e94\U0001d2e1\U0001d360\U0001d372\U0001d377\U0001e8c7\U0001ec71\U0001eca3\U0001ecb1\U0001ed01"},
	{"2", "\u09f5\u0c7a\u0c7d\u0f2b\u136a\u17f2\u24f6\u2777\u2781\u278b\u3022\U00010108\U0001015b\U0001015c\U0001015d" +
		"\U0001015e\U000102e2\U000103d2\U00010859\U0001087a\U000108a8\U0001091a\U000109c1\U00010a41\U00010b59\U00010b79" +
		"\U00010baa\U00010e61\U00010f1e\U00010fc6\U00011053\U000111e2\U00011c5b\U00012400\U00012416\U0001241f\U00012423" +
		"\U0001242d\U00012435\U0001244a\U00012450\U00012456\U00012459\U00016e82\U00016e95\U0001d2e2\U0001d361\U0001d373" +
		"\U0001e8c8\U0001ec72\U0001eca4\U0001ecb2\U0001ed02\U0001ed2f"},
	{"3", "\u09f6\u0c7b\u0c7e\u0f2c\u136b\u17f3\u24f7\u2778\u2782\u278c\u3023\U00010109\U000102e3\U0001085a\U0001087b" +
		"\U000108a9\U0001091b\U000109c2\U00010a42\U00010b5a\U00010b7a\U00010bab\U00010e62\U00010f1f\U00010fc7\U00011054" +
		"\U000111e3\U00011c5c\U00012401\U00012408\U00012417\U00012420\U00012424\U00012425\U0001242e\U0001242f\U00012436" +
		"\U00012437\U0001243a\U0001243b\U0001244b\U00012451\U00012457\U00016e83\U00016e96\U0001d2e3\U0001d362\U0001d374" +
		"\U0001e8c9\U0001ec73\U0001eca5\U0001ed03\U0001ed30"},
	{"4", "\u09f7\u0f2d\u136c\u17f4\u24f8\u2779\u2783\u278d\u3024\U0001010a\U000102e4\U0001087c\U000108aa\U000108ab" +
		"\U000109c3\U00010a43\U00010b5b\U00010b7b\U00010bac\U00010e63\U00010f20\U00010fc8\U00011055\U000111e4\U00011c5d" +
		"\U00012402\U00012409\U0001240f\U00012418\U00012421\U00012426\U00012430\U00012438\U0001243c\U0001243d\U0001243e" +
		"\U0001243f\U0001244c\U00012452\U00012453\U00012469\U00016e84\U0001d2e4\U0001d363\U0001d375\U0001e8ca\U0001ec74" +
		"\U0001eca6\U0001ed04\U0001ed31"},
	{"5", "\u0f2e\u136d\u17f5\u24f9\u277a\u2784\u278e\u3025\U0001010b\U00010143\U00010148\U0001014f\U0001015f\U00010173" +
		"\U000102e5\U00010321\U0001087d\U000108ac\U000108fc\U000109c4\U00010aec\U00010cfb\U00010e64\U00010f21\U00011056" +
		"\U000111e5\U00011c5e\U00012403\U0001240a\U00012410\U00012419\U00012422\U00012427\U00012431\U00012439\U0001244d" +
		"\U00012454\U00012455\U0001246a\U00016e85\U0001d2e5\U0001d364\U0001d376\U0001d378\U0001e8cb\U0001ec75\U0001eca7" +
		"\U0001ed05\U0001ed32"},
	{"6", "\u0f2f\u136e\u17f6\u2185\u24fa\u277b\u2785\u278f\u3026\U0001010c\U000102e6\U000109c5\U00010e65\U00011057" +
		"\U000111e6\U00011c5f\U00012404\U0001240b\U00012411\U0001241a\U00012428\U00012440\U0001244e\U0001246b\U00016e86" +
		"\U0001d2e6\U0001d365\U0001e8cc\U0001ec76\U0001eca8\U0001ed06\U0001ed33"},
	{"7", "\u0f30\u136f\u17f7\u24fb\u277c\u2786\u2790\u3027\U0001010d\U000102e7\U000109c6\U00010e66\U00011058\U000111e7" +
		"\U00011c60\U00012405\U0001240c\U00012412\U0001241b\U00012429\U00012441\U00012442\U00012443\U0001246c\U00016e87" +
		"\U0001d2e7\U0001d366\U0001e8cd\U0001ec77\U0001eca9\U0001ed07\U0001ed34"},
	{"8", "\u0f31\u1370\u17f8\u24fc\u277d\u2787\u2791\u3028\U0001010e\U000102e8\U000109c7\U00010e67\U00011059\U000111e8" +
		"\U00011c61\U00012406\U0001240d\U00012413\U0001241c\U0001242a\U00012444\U00012445\U0001246d\U00016e88\U0001d2e8" +
		"\U0001d367\U0001e8ce\U0001ec78\U0001ecaa\U0001ed08\U0001ed35"},
	{"9", "\u0f32\u1371\u17f9\u24fd\u277e\u2788\u2792\u3029\U0001010f\U000102e9\U000109c8\U00010e68\U0001105a\U000111e9" +
		"\U00011c62\U00012407\U0001240e\U00012414\U0001241d\U0001242b\U00012446\U00012447\U00012448\U00012449\U0001246e" +
		"\U00016e89\U0001d2e9\U0001d368\U0001e8cf\U0001ec79\U0001ecab\U0001ed09\U0001ed36"},
	{"a", "\u0363\u1dd3\u1df2\ua79a\ua79b\ua7c0\ua7c1\U0001f150\U0001f170"},
	{"b", "\u1de8\U0001f151\U0001f171"},
	{"c", "\u0368\u1dd7\U0001f152\U0001f172"},
	{"d", "ÐðĐđ\u0369\u1d9e\u1dd8\u1dd9\ua779\ua77a\U0001f153\U0001f173\U0001f1a5"},
	{"e", "\u0364\U0001f154\U0001f174"},
	{"f", "\u1deb\ua77b\ua77c\U0001f155\U0001f175"},
	{"g", "\u1acc\u1d79\u1dda\ua77d\ua7a0\ua7a1\U0001f156\U0001f176"},
	{"h", "Ħħ\u036a\u210f\ua7f8\U00010795\U0001f157\U0001f177"},
	{"i", "\u0365\U0001f158\U0001f178"},
	{"j", "\U0001f159\U0001f179"},
	{"k", "\u1ddc\ua7a2\ua7a3\U0001f15a\U0001f17a"},
	{"l", "ĿŀŁł\u1ddd\U0001f15b\U0001f17b"},
	{"m", "\u036b\U0001f15c\U0001f17c"},
	{"n", "\u1de0\ua7a4\ua7a5\U0001f15d\U0001f17d"},
	{"o", "ØøǾǿ\u0366\u1ded\u1df3\ua79c\ua79d\U000107a2\U0001f15e\U0001f17e"},
	{"p", "\u1dee\U0001f15f\U0001f17f\U0001f18a"},
	{"q", "\U0001f160\U0001f180"},
	{"r", "\u036c\u1acd\u1dca\u1de3\ua75a\ua75b\ua782\ua783\ua7a6\ua7a7\U0001f161\U0001f181"},
	{"s", "\u1de4\u1de5\ua784\ua785\ua7a8\ua7a9\ua7d8\ua7d9\U0001f162\U0001f182"},
	{"t", "\u036d\u1ace\ua786\ua787\U0001f163\U0001f183"},
	{"u", "\u0367\u1df0\u1df4\ua79e\ua79f\U0001f164\U0001f184"},
	{"v", "\u036e\U0001f165\U0001f185"},
	{"w", "\u1abf\u1df1\ua7c2\ua7c3\U0001f166\U0001f186"},
	{"x", "\u036f\U0001f167\U0001f187"},
	{"y", "\U0001f168\U0001f188"},
	{"z", "\u1de6\U0001f169\U0001f189"},
	{"10", "\u24fe\u277f\u2789\u2793\u3248"},
	{"11", "\u24eb"},
	{"12", "\u24ec"},
	{"13", "\u24ed"},
	{"14", "\u24ee"},
	{"15", "\u24ef"},
	{"16", "\u24f0"},
	{"17", "\u24f1"},
	{"18", "\u24f2"},
	{"19", "\u24f3"},
	{"20", "\u24f4\u3249"},
	{"2k", "\U0001f19d"},
	{"30", "\u324a"},
	{"3d", "\U0001f19b"},
	{"40", "\u324b"},
	{"4k", "\U0001f19e"},
	{"50", "\u324c"},
	{"60", "\u324d"},
	{"70", "\u324e"},
	{"80", "\u324f"},
	{"8k", "\U0001f19f"},
	{"aa", "\ua732\ua733\U00010780"},
	{"ab", "\U0001f18e"},
	{"ae", "ÆæǢǣǼǽ\u1d2d\u1dd4\U00010783"},
	{"ao", "\u1dd5\ua734\ua735"},
	{"au", "\ua736\ua737"},
	{"av", "\u1dd6\ua738\ua739\ua73a\ua73b"},
	{"ay", "\ua73c\ua73d"},
	{"cl", "\U0001f191"},
	{"db", "ȸ"},
	{"dz", "\u02a3\U00010787"},
	{"hc", "\U0001f1a6"},
	{"ic", "\U0001f18b"},
	{"id", "\U0001f194"},
	{"ll", "\u1efa\u1efb"},
	{"ls", "\u02aa\U00010799"},
	{"lz", "\u02ab\U0001079a"},
	{"ng", "\U0001f196"},
	{"oe", "Œœ\ua7f9"},
	{"ok", "\U0001f197"},
	{"oo", "\ua74e\ua74f"},
	{"pa", "\U0001f18c"},
	{"qp", "ȹ"},
	{"sa", "\U0001f18d"},
	{"th", "\u1d7a"},
	{"ts", "ƾ\u02a6\U000107ac"},
	{"tz", "\ua728\ua729"},
	{"vs", "\U0001f19a"},
	{"vy", "\ua760\ua761"},
	{"wc", "\U0001f18f"},
	{"zw", "ƍ"},
}

// lookalikesOfLetters are those by other letters. Marks among them are letters above the one before.
var lookalikesOfLetters = []alike{
	{"ɑ", "\u1de7"}, {"ə", "\u1dea"}, {"ɢ", "\u1ddb"}, {"ɴ", "\u1de1"}, {"ʀ", "\u1de2"}, {"ʃ", "\u1def"},
	{"ʍ", "\u1ac0"}, {"ʟ", "\u1dde"}, {"ι", "\u037a"}, {"а", "\u2df6"}, {"б", "\u2de0"}, {"в", "\u2de1"},
	{"г", "\u0490\u0491\u2de2"}, {"д", "\u2de3"}, {"е", "\u2df7"}, {"ж", "\u2de4"}, {"з", "\u2de5"},
	{"и", "\ua675"}, {"к", "\u2de6"}, {"л", "\u2de7"}, {"м", "\u2de8"}, {"н", "\u2de9"},
	{"о", "\u2dea\ua668\ua669\ua66a\ua66b\ua66c\ua66d\ua66e\ua698\ua699\ua69a\ua69b"}, {"п", "\u2deb"},
	{"р", "\u2dec"}, {"с", "\u2ded"}, {"т", "\u2dee"}, {"у", "\ua677"}, {"ф", "\ua69e"}, {"х", "\u2def"},
	{"ц", "\u2df0"}, {"ч", "\u2df1"}, {"ш", "\u2df2"}, {"щ", "\u2df3"}, {"ъ", "\ua678"}, {"ы", "\ua679"},
	{"ь", "\ua67a"}, {"ю", "\u2dfb"}, {"є", "\ua674"}, {"і", "\ua676"}, {"ѡ", "\ua67b"}, {"ѣ", "\u2dfa"},
	{"ѥ", "\ua69f"}, {"ѧ", "\u2dfd"}, {"ѫ", "\u2dfe"}, {"ѭ", "\u2dff"}, {"ѳ", "\u2df4"}, {"ך", "\u05db"},
	{"ם", "\u05de"}, {"ן", "\u05e0"}, {"ף", "\u05e4"}, {"ץ", "\u05e6"}, {"ء", "\u0674\u0883\u0887"},
	{"ا", "\u0870\u0871\u0872\u0873\u0874\u0875\u0876\u0877\u0878\u0879" +
		"\u087a\u087b\u087c\u087d\u087e\u087f\u0880\u0881\u0882\u08ad"},
	{"و", "\u06e5\u0884"}, {"ي", "\u06e6\u0885\u0886"}, {"ی", "\u08c9"}, {"ᴈ", "\u025c\ua7ab"}, {"ᴉ", "\u1d4e"}, {"ᴍ", "\u1ddf"}, {"あ", "ぁァア"},
	{"い", "ぃィイ"}, {"う", "ぅゥウ"}, {"え", "ぇェエ"}, {"お", "ぉォオ"}, {"か", "ゕカヵ"}, {"き", "キ"}, {"く", "クㇰ"}, {"け", "ゖケヶ"},
	{"こ", "コ"}, {"さ", "サ"}, {"し", "シㇱ"}, {"す", "スㇲ"}, {"せ", "セ"}, {"そ", "ソ"}, {"た", "タ"}, {"ち", "チ"},
	{"つ", "っッツ"}, {"て", "テ"}, {"と", "トㇳ"}, {"な", "ナ"}, {"に", "ニ"}, {"ぬ", "ヌㇴ"}, {"ね", "ネ"}, {"の", "ノ"},
	{"は", "ハㇵ"}, {"ひ", "ヒㇶ"}, {"ふ", "フㇷ"}, {"へ", "ヘㇸ"}, {"ほ", "ホㇹ"}, {"ま", "マ"}, {"み", "ミ"}, {"む", "ムㇺ"},
	{"め", "メ"}, {"も", "モ"}, {"や", "ゃャヤ"}, {"ゆ", "ゅュユ"}, {"よ", "ょョヨ"}, {"ら", "ラㇻ"}, {"り", "リㇼ"}, {"る", "ルㇽ"},
	{"れ", "レㇾ"}, {"ろ", "ロㇿ"}, {"わ", "ゎヮワ"}, {"ゐ", "ヰ"}, {"ゑ", "ヱ"}, {"を", "ヲ"}, {"ん", "ン"}, {"ㄅ", "\u31a0"},
	{"ㄆ", "\u31b4"}, {"ㄊ", "\u31b5"}, {"ㄍ", "\u31a3\u31bb"}, {"ㄎ", "\u31b6"}, {"ㄏ", "\u31b7"}, {"ㄐ", "\u31a2"},
	{"ㄗ", "\u31a1"}, {"ㄚ", "\u31a9"}, {"ㄛ", "\u31a7"}, {"ㄜ", "\u312e"}, {"ㄞ", "\u31ae"}, {"ㄠ", "\u31af"},
	{"ㄧ", "\u31aa\u31b3"}, {"ㄨ", "\u31a8\u31ab"}, {"ㆤ", "\u31a5"}, {"ꙉ", "\u2df8"}, {"ꙋ", "\u2df9"},
	{"ꙗ", "\u2dfc"}, {"ꝯ", "\u1dd2"}, {"ꞵ", "\u1de9"}, {"ꬸ", "\u1dec"},
}
