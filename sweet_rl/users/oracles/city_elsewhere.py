"""Names that questions mention and none of the 91 cities answers to: other places, waters, mountains, cities.

They are here so that "Is it in Portugal?" and "Is it Los Angeles?" get a plain No.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PLACES: Final = """
Antarctica;Scandinavia;Central America;Polynesia;Melanesia;Benelux;Baltics;Baltic states;Caucasus;Sahara;Sahel;
West Africa;Western Africa;Southern Africa;North Africa;Horn of Africa;Levant;Gulf states;Arabian Peninsula;
Balkan Peninsula;Siberia;Patagonia;Amazon Basin;Southeast Europe;Australasia;West Europe;Near East;New England;
Albania;Algeria;Angola;Armenia;Austria;Azerbaijan;Bahrain;Belgium;Bosnia;Botswana;Bulgaria;Cambodia;Cameroon;Chad;
Costa Rica;Croatia;Cyprus;Czech Republic;Denmark;Dominican Republic;El Salvador;Estonia;Fiji;Finland;Georgia;Ghana;
Greece;Guatemala;Haiti;Honduras;Iceland;Ireland;Israel;Ivory Coast;Cote d'Ivoire;Jamaica;Jordan;Kazakhstan;Kenya;
Kuwait;Kyrgyzstan;Latvia;Lebanon;Libya;Lithuania;Luxembourg;Madagascar;Malta;Mexico;Mozambique;Nepal;Netherlands;
Holland;New Zealand;Nicaragua;Niger;Nigeria;Norway;Oman;Panama;Paraguay;Philippines;Poland;Portugal;Puerto Rico;
Qatar;Rwanda;Saudi Arabia;Scotland;Senegal;Serbia;Slovakia;Slovenia;Somalia;South Africa;Sri Lanka;Sudan;Sweden;
Switzerland;Syria;Tajikistan;Tanzania;Trinidad;Tunisia;Turkmenistan;UAE;United Arab Emirates;Uganda;Uruguay;Wales;
Yemen;Zambia;Zimbabwe;Macau;Hong Kong;Tibet;Mainland Europe;
Hokkaido;Kyushu;Shikoku;Tohoku;Okinawa;Chugoku;Bali;Borneo;Kalimantan;Sulawesi;Papua;Lombok;Aceh;West Sumatra;
South Sumatra;Banten;Yogyakarta Special Region;Hebei;Henan;Hunan;Anhui;Zhejiang;Fujian;Jiangxi;Guizhou;Yunnan;
Guangxi;Gansu;Qinghai;Hainan;Xinjiang;Inner Mongolia;Ningxia;Haryana;Rajasthan;Madhya Pradesh;Bihar;Odisha;Kerala;
Goa;Andhra Pradesh;Assam;Jharkhand;Kashmir;Uttarakhand;Balochistan;Khyber Pakhtunkhwa;Gilgit Baltistan;Isfahan;
Fars;Khuzestan;East Azerbaijan;Kurdistan;Sichuan Tibet;Jeolla;Chungcheong;Gangwon;Jeju;North Hamgyong;
Cappadocia;Black Sea Region;Mediterranean Region;Marmara;Southeastern Anatolia;Eastern Anatolia;
Rio de Janeiro state;Parana;Pernambuco;Rio Grande do Sul;Santa Catarina;Para;Amazonas;Goias;Mato Grosso;
Catalonia;Andalusia;Galicia;Basque Country;Valencia region;Tuscany;Lombardy;Sicily;Sardinia;Campania;Veneto;
Bavaria;Saxony;Hesse;Prussia;Normandy;Provence;Brittany;Alsace;Burgundy;Transylvania;Moldavia;Dobruja;Banat;
Transdanubia;Crimea;Donbas;Galicia Ukraine;Quebec;British Columbia;Alberta;Manitoba;California;New York state;
Florida;Nevada;Washington state;Pennsylvania;Massachusetts;West Coast;East Coast;Queensland;Victoria state;
Western Australia;South Australia;Tasmania;Northern Territory;Upper Egypt;Sinai;Sinai Peninsula;Luxor governorate;
Atlantico;Bolivar department;Santander;Pichincha;Zulia;Carabobo;Cusco region;Valparaiso Region;Patagonia Argentina;
Cordoba province;Santa Fe province;Mendoza province;Aegean Islands;Khulna Division;Chittagong Division;Sylhet
"""

_CITIES: Final = """
Abidjan;Abu Dhabi;Accra;Agra;Aleppo;Algiers;Almaty;Amman;Amsterdam;Antalya;Aswan;Athens;Atlanta;Auckland;Bali city;
Barcelona;Barranquilla;Basra;Beirut;Belfast;Bhopal;Bishkek;Boston;Brisbane;Brussels;Bukhara;Bursa;Busan city;Cancun;
Cape Town;Cartagena;Chandigarh;Chiang Mai;Chittagong;Colombo;Copenhagen;Cusco;Da Nang;Dallas;Damascus;Debrecen;
Denpasar;Detroit;Doha;Dubai;Dublin;Edinburgh;Fez;Florence;Foshan;Frankfurt;Fukuoka;Fuzhou;Geneva;Glasgow;Guilin;
Hamburg;Hangzhou;Hanoi;Helsinki;Hiroshima;Ho Chi Minh City;Saigon;Hohhot;Isfahan city;Islamabad;Jaipur;Jeddah;
Jerusalem;Johannesburg;Kabul;Kaifeng;Kaohsiung;Karaj;Kathmandu;Kawasaki;Khartoum;Kobe;Konya;Krakow;Kuala Lumpur;
Kunming;Kyoto;Lagos;Lanzhou;Lisbon;Los Angeles;Lucknow;Luoyang;Luxor;Lviv;Macao;Makassar;Manaus;Mandalay;Manila;
Maracaibo;Marrakech;Marrakesh;Marseille;Mecca;Medina city;Melbourne;Mexico City;Miami;Milan;Milwaukee;Minsk;
Montevideo;Montreal;Mosul;Multan;Munich;Nairobi;Naples;New York;New York City;Ningbo;Odessa;Oslo;Palembang;Panama City;
Perth;Peshawar;Philadelphia;Phnom Penh;Porto;Prague;Pune;Qufu;Quito;Rabat;Rawalpindi;Recife;Rio de Janeiro;Riyadh;
Saint Petersburg;St Petersburg;San Francisco;San Diego;Samarkand;Sanaa;Sapporo;Seattle;Sendai;Seville;Shenzhen;Shiraz;
Sofia;Solo;Surakarta;Stockholm;Surat;Suzhou;Tabriz;Tangier;Tbilisi;Tel Aviv;Timisoara;Tunis;Ulsan;Valencia;Valparaiso;
Vancouver;Varanasi;Venice;Vienna;Vladivostok;Warsaw;Washington DC;Wenzhou;Wuxi;Xiamen;Yangzhou;Yogyakarta;Zhengzhou;
Zurich;Gwangju;Daejeon;Suwon;Kirkuk;Esfahan;Bucaramanga;Cluj Napoca;Cluj;Iasi;Constanta;Brasov;Kharkiv;Hefei;Nanchang;
Changsha;Dongguan;Datong;Yantai;Weifang;Anshan;Jilin City;Baoding;Depok;Bekasi;Tangerang;Tasikmalaya;Batam;Padang
"""

_WATERS: Final = """
Mekong River;Mississippi River;Hudson River;Rhine River;Elbe River;Volga River;Don;Amazon River;Orinoco River;
Magdalena River;Zambezi River;Niger River;Red River;Euphrates River;Jordan River;Brahmaputra River;Godavari River;
Krishna River;Kaveri River;Narmada River;Amur River;Liao River;Irrawaddy River;Oder River;Vistula River;Loire River;
Rhone River;Po River;Arno River;Ebro River;Neva River;Hai Phong;Lake Victoria;Lake Geneva;Lake Titicaca;Lake Superior;
Lake Erie;Lake Huron;Lake Biwa;West Lake;Lake Baikal;Lake Van;Lake Maracaibo;Red Sea;Dead Sea;Aral Sea;Irish Sea;
Bosporus;Danube Delta;Gulf of Guinea;Gulf of Aden;Baltic Sea;Adriatic Sea;Tonle Sap;Hudson Bay;Victoria Harbour
"""

_MOUNTAINS: Final = """
Alps;Himalayas;Himalayan;Pyrenees;Carpathians;Carpathian;Rockies;Rocky;Appalachian;Ural;Urals;Atlas;Caucasus;
Hindu Kush;Karakoram;Taurus;Zagros;Eastern Ghats;Pontic;Altai;Kunlun;Drakensberg;Transylvanian Alps;Apennine;Apennines
"""


def _split(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.replace("\n", "").split(";") if name.strip())


ELSEWHERE: Final[Mapping[str, tuple[str, ...]]] = {
    "place": _split(_PLACES),
    "elsewhere": _split(_CITIES),
    "water": _split(_WATERS),
    "mountain": (
        *_split(_MOUNTAINS),
        *(f"{name} mountains" for name in _split(_MOUNTAINS)),
        *(f"{name} mountain range" for name in _split(_MOUNTAINS)),
    ),
}
"""Names by kind, as `sweet_rl.users.oracles.city_words` finds them."""
